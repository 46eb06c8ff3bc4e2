"""What several tests say about generic devices."""

import re
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from apportion.agent.devices.generic.backend import GenericBackend
from apportion.agent.devices.generic.kind import DeviceKind
from apportion.agent.devices.names import UnkeptNames
from apportion.agent.slices.pool import DriverPool

CONFIGURATION = Path(__file__).parents[3] / "manifests/components/generic-devices/devices.yaml"
"""That of the component, whose card the fake host has."""
FPGA = "fpga.example.com"
FIRST, SECOND = "0000:9d:00.0", "0000:1a:00.0"
Backends = Callable[..., GenericBackend]


def described() -> dict[str, Any]:
    """Return the component's only kind of device, as it is written."""
    return deepcopy(_described())


@cache
def _described() -> dict[str, Any]:
    (kind,) = yaml.safe_load(CONFIGURATION.read_text(encoding="utf-8"))["devices"]
    return dict(kind)


def backend_of(root: Path, **changes: Any) -> GenericBackend:
    """Return a backend of the component's kind with other values in some fields."""
    return GenericBackend(DeviceKind.from_json(described() | changes), root, UnkeptNames())


_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_IDENTIFIER = re.compile(r"([a-z.]+/)?[A-Za-z_][A-Za-z0-9_]{0,31}")


def check_limits(pool: DriverPool) -> None:
    """Fail where the API server would refuse a slice of the pool, or take the pool for invalid (resource.k8s.io/v1)."""
    sets = {row["name"]: row["counters"] for each in pool.contents for row in each.rows if "counters" in row}
    for content in pool.contents:
        assert len(content.rows) <= (8 if content.field == "sharedCounters" else 64)
        for row in content.rows:
            assert _LABEL.fullmatch(row["name"])
            facts = {**row.get("attributes", {}), **row.get("capacity", {})}
            assert len(row.get("attributes", {})) + len(row.get("capacity", {})) <= 32
            assert all(_IDENTIFIER.fullmatch(name) for name in facts)
            assert all(len(str(value.get("string", "")).encode()) <= 64 for value in facts.values())
            for consumed in row.get("consumesCounters", ()):
                assert consumed["counters"].keys() <= sets[consumed["counterSet"]].keys()
                assert consumed["counters"]
    for counters in sets.values():
        assert 1 <= len(counters) <= 32
        assert all(_LABEL.fullmatch(name) for name in counters)
