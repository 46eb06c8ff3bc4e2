"""The order of GPUs in which a ring crosses NVLink groups, NUMA nodes and PCIe roots as seldom as it can. Pure.

In: the attributes of whole GPUs by name. Out: their names in order. A group says which GPUs reach each other by NVLink, not which are
neighbours in it: inside one they follow each other by their place on the bus.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

_STANDARD = "resource.kubernetes.io"
_Place: TypeAlias = tuple[int, str, str]


def ring_order(gpus: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the names in the order of a ring, the same for the same GPUs whatever order they come in."""
    places = {name: _place(attributes) for name, attributes in gpus.items()}
    groups = {
        name: str(attributes.get("nvlinkGroup", {}).get("string", name)) for name, attributes in gpus.items()
    }
    first: dict[str, _Place] = {}
    for name, group in groups.items():
        first[group] = min(first.get(group, places[name]), places[name])
    return tuple(sorted(gpus, key=lambda name: (first[groups[name]], groups[name], places[name], name)))


def _place(attributes: Mapping[str, Any]) -> _Place:
    """Return NUMA node (-1: unknown), PCIe root and bus id."""
    numa = attributes.get(f"{_STANDARD}/numaNode", {}).get("int", -1)
    root, bus = (
        str(attributes.get(f"{_STANDARD}/{name}", {}).get("string", "")) for name in ("pcieRoot", "pciBusID")
    )
    return int(numa), root, bus
