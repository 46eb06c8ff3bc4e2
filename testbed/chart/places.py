"""What the chart's values change in the objects of the base, beside the features.

A place is in one object: an entry that a value replaces, lines that values add, or a whole object that depends on one.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

from testbed.chart.changes import Path


@dataclass(frozen=True, slots=True)
class Replaced:
    """An entry, key and value, becomes these lines."""

    kind: str
    name: str
    path: Path
    lines: str
    says: str = ""
    """The folder of the feature whose changes below the entry are said by these lines, too; empty: there is none."""


@dataclass(frozen=True, slots=True)
class AddedItems:
    """Lines come at the end of the list at `path`."""

    kind: str
    name: str
    path: Path
    lines: str


@dataclass(frozen=True, slots=True)
class AddedKeys:
    """Lines come after the entry at `path`."""

    kind: str
    name: str
    path: Path
    lines: str


@dataclass(frozen=True, slots=True)
class Guarded:
    """An object is there only on a condition."""

    kind: str
    name: str
    condition: str


Place: TypeAlias = Replaced | AddedItems | AddedKeys | Guarded

_POD: Final = ("spec", "template", "spec")
_CONTAINER: Final = (*_POD, "containers", 0)
_OPERATOR: Final = ("Deployment", "apportion-operator")
_AGENT: Final = ("DaemonSet", "apportion-agent")
_SIMULATED: Final = "{{- if .Values.agent.simulation }}"


def _lines(*lines: str) -> str:
    return "\n".join(lines)


def _more(value: str, column: int) -> str:
    """Return what a value adds to a list or mapping whose entries begin at this column."""
    return _lines(f"{{{{- with {value} }}}}", f"{{{{- toYaml . | nindent {column} }}}}", "{{- end }}")


def _entry(key: str, value: str, column: int) -> str:
    """Return an entry at this column that is there where its value is not empty."""
    inside = f"  {{{{- toYaml . | nindent {column + 2} }}}}"
    return _lines(f"{{{{- with {value} }}}}", f"{key}:", inside, "{{- end }}")


def _scalar(key: str, value: str) -> str:
    return _lines(f"{{{{- with {value} }}}}", f"{key}: {{{{ . | quote }}}}", "{{- end }}")


def _workload(object_: tuple[str, str], role: str, log_format: int) -> tuple[Place, ...]:
    """Return what operator and agent have in common; `log_format` is the position of that argument."""
    own = f".Values.{role}"
    return (
        AddedKeys(
            *object_,
            ("spec", "template", "metadata", "labels"),
            _lines(_more(f"{own}.podLabels", 8), _entry("annotations", f"{own}.podAnnotations", 6)),
        ),
        AddedKeys(
            *object_,
            (*_POD, "serviceAccountName"),
            _lines(
                _entry("imagePullSecrets", ".Values.image.pullSecrets", 6),
                _entry("nodeSelector", f"{own}.nodeSelector", 6),
                _entry("affinity", f"{own}.affinity", 6),
            ),
        ),
        Replaced(
            *object_, (*_POD, "priorityClassName"), _scalar("priorityClassName", f"{own}.priorityClassName")
        ),
        Replaced(
            *object_,
            (*_CONTAINER, "image"),
            _lines(
                'image: {{ include "apportion.image" . | quote }}',
                _scalar("imagePullPolicy", ".Values.image.pullPolicy"),
            ),
        ),
        Replaced(*object_, (*_CONTAINER, "args", log_format), f"- --log-format={{{{ {own}.logFormat }}}}"),
        AddedItems(*object_, (*_CONTAINER, "args"), _more(f"{own}.extraArgs", 8)),
    )


PLACES: Final[tuple[Place, ...]] = (
    *_workload(_OPERATOR, "operator", 2),
    Replaced(
        *_OPERATOR,
        (*_CONTAINER, "resources"),
        _lines(
            '{{- with include "apportion.operatorResources" . }}',
            "resources:",
            "  {{- . | nindent 10 }}",
            "{{- end }}",
        ),
        says="components/web",
    ),
    Replaced(*_OPERATOR, ("spec", "replicas"), "replicas: {{ int .Values.operator.replicas }}"),
    AddedKeys(
        *_OPERATOR,
        (*_POD, "terminationGracePeriodSeconds"),
        _entry("tolerations", ".Values.operator.tolerations", 6),
    ),
    AddedKeys(*_OPERATOR, (*_CONTAINER, "args"), _entry("env", ".Values.operator.extraEnv", 8)),
    Guarded("PodDisruptionBudget", "apportion-operator", "gt (int .Values.operator.replicas) 1"),
    *_workload(_AGENT, "agent", 8),
    Replaced(*_AGENT, (*_CONTAINER, "resources"), _entry("resources", ".Values.agent.resources", 8)),
    Replaced(*_AGENT, (*_POD, "tolerations"), _entry("tolerations", ".Values.agent.tolerations", 6)),
    Replaced(
        *_AGENT,
        ("spec", "updateStrategy", "rollingUpdate", "maxSurge"),
        "maxSurge: {{ .Values.agent.maxSurge }}",
    ),
    AddedItems(
        *_AGENT,
        (*_CONTAINER, "env"),
        _lines(
            _SIMULATED,
            "- name: BACKEND",
            "  value: simulated",
            "- name: SIMULATION",
            "  value: /var/lib/apportion/simulation.yaml",
            "{{- end }}",
            _more(".Values.agent.extraEnv", 8),
        ),
    ),
    AddedItems(
        *_AGENT,
        (*_CONTAINER, "volumeMounts"),
        _lines(
            _SIMULATED,
            "- name: simulation",
            "  mountPath: /var/lib/apportion/simulation.yaml",
            "  subPath: simulation.yaml",
            "{{- end }}",
        ),
    ),
    AddedItems(
        *_AGENT,
        (*_POD, "volumes"),
        _lines(
            _SIMULATED,
            "- name: simulation",
            "  configMap:",
            '    name: {{ include "apportion.simulationName" . }}',
            "{{- end }}",
        ),
    ),
    Guarded("NetworkPolicy", "apportion", ".Values.networkPolicy.enabled"),
)
