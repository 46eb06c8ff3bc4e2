"""What several tests say about generic devices."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from apportion.agent.devices.generic.backend import GenericBackend
from apportion.agent.devices.generic.kind import DeviceKind
from apportion.agent.devices.names import UnkeptNames

CONFIGURATION = Path(__file__).parents[3] / "manifests/components/generic-devices/devices.yaml"
"""That of the component, whose card the fake host has."""
FPGA = "fpga.example.com"
FIRST, SECOND = "0000:9d:00.0", "0000:1a:00.0"
Backends = Callable[..., GenericBackend]


def described() -> dict[str, Any]:
    """Return the component's only kind of device, as it is written."""
    (kind,) = yaml.safe_load(CONFIGURATION.read_text(encoding="utf-8"))["devices"]
    return dict(kind)


def backend_of(root: Path, **changes: Any) -> GenericBackend:
    """Return a backend of the component's kind with other values in some fields."""
    return GenericBackend(DeviceKind.from_json(described() | changes), root, UnkeptNames())
