"""The overlays and components of the manifests, as values of the chart.

A further component is one entry here, one in the chart's values.yaml and values.schema.json, and one case in tests/install/test_chart.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_EACH_GENERIC_DRIVER = (
    '{{- range splitList "," (include "apportion.genericDrivers" .) }}\n  - {{ . }}\n{{- end }}'
)


@dataclass(frozen=True, slots=True)
class Feature:
    """One overlay or component."""

    folder: str
    """Its folder below manifests/."""
    condition: str
    """When the chart has it, as Go templates say it."""
    replacements: Mapping[str, str] = field(default_factory=dict)
    """What stands for a value in the component's text, and the template action in the chart."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Its files with further objects, and their names in the chart."""

    @property
    def component(self) -> bool:
        """Whether it goes onto an installation; else it is one of its own."""
        return self.folder.startswith("components/")


FEATURES: Final = (
    Feature(
        "overlays/nvidia-names",
        ".Values.features.nvidiaNames",
        files={
            "device-classes.yaml": "nvidia-names-device-classes.yaml",
            "claims-in-use.yaml": "nvidia-names-claims-in-use.yaml",
        },
    ),
    Feature("overlays/ascend", ".Values.features.ascend"),
    Feature("components/preemption", ".Values.features.preemption"),
    Feature(
        "components/generic-devices",
        ".Values.features.genericDevices",
        replacements={
            "'fpga.example.com'": """'{{ include "apportion.genericDrivers" . | replace "," "', '" }}'""",
            "--drivers=fpga.example.com": '--drivers={{ include "apportion.genericDrivers" . }}',
            "  - fpga.example.com": _EACH_GENERIC_DRIVER,
        },
        files={"claims-in-use.yaml": "generic-devices-claims-in-use.yaml"},
    ),
    Feature(
        "components/extended-resources",
        ".Values.features.extendedResources",
        files={
            "device-classes.yaml": "extended-resources-device-classes.yaml",
            "admission.yaml": "extended-resources-admission.yaml",
        },
    ),
    Feature("components/web", ".Values.features.web"),
    Feature("components/adopt-foreign", ".Values.features.adoptForeign"),
    Feature(
        "components/imex-channels",
        ".Values.features.imexChannels",
        replacements={"value: '8'": "value: {{ .Values.features.imexChannels | int | quote }}"},
        files={
            "device-class.yaml": "imex-channels-device-class.yaml",
            "claims-in-use.yaml": "imex-channels-claims-in-use.yaml",
        },
    ),
    Feature(
        "components/no-keyless-tolerations",
        ".Values.features.noKeylessTolerations",
        files={"policy.yaml": "no-keyless-tolerations.yaml"},
    ),
)

ELSEWHERE: Final = {
    "overlays/dev": "for Tilt; the chart's value agent.simulation gives simulated cards",
    "components/monitoring": "changes nothing of the base, needs the CRDs of prometheus-operator, and goes beside either installation",
}
"""Folders that are no feature of the chart, and why."""
