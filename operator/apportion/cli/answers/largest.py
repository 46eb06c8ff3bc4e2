"""largest(): how many devices of one kind could be given out at once, if nothing else was.

In: the allocator's state. Out: for each kind of device the number that is left, and the number if nothing were held. Devices that share
counters (KEP-4815) are counted by the best choice for each group of counters, never by the sum of what is published: seven places of a
profile that exclude each other are one. Devices that are held, tainted or on cordoned nodes are not left.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from apportion.allocator.bits import bits
from apportion.allocator.node.counters import GroupState
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.state import State
from apportion.api.contract import GUARD, VIRTUAL_FUNCTION
from apportion.dra.device import Device, DeviceId
from apportion.dra.taint import Toleration
from apportion.quota.charge import MODELS, PROFILES, first_attribute

_TOLERATIONS = (Toleration(key=GUARD, operator="Exists"),)
STEPS = 100_000
"""Choices that are tried for one group of counters; a partitioned card takes some hundreds."""


class DeviceKind(NamedTuple):
    """Devices that stand for each other."""

    driver: str
    model: str
    name: str
    """MIG profile or vNPU template, of a layout's partitions with the layout; else the type."""


@dataclass(slots=True)
class Left:
    """How many devices of a kind there are."""

    left: int = 0
    """Could be given out now."""
    most: int = 0
    """Could be given out if nothing were held."""
    nodes: dict[str, int] = field(default_factory=dict)
    """How many of those left are on each node that has any; a device of several nodes counts for the first."""
    held: int = 0
    """How many more would be left if nothing was held beside allocations (DeviceHolds)."""
    exact: bool = True
    """False: at least so many; the search ended before it had tried everything."""


def largest(state: State, cordoned: Collection[str] = ()) -> dict[DeviceKind, Left]:
    """Return how many devices of each kind are left; `cordoned`: nodes whose devices are not."""
    state.settle()
    found: dict[DeviceKind, Left] = {}
    seen: set[DeviceId] = set()
    counts: dict[tuple[GroupState, int], tuple[int, bool]] = {}
    for name in sorted(state.names()):
        view = state.view(name)
        new = view.base & ~sum(1 << index for index in bits(view.base) if view.id_of(index) in seen)
        seen.update(view.id_of(index) for index in bits(new))
        usable = 0 if name in cordoned else view.tolerating(_TOLERATIONS) & ~view.exclusive & ~view.charged
        for kind, mask in _kinds(view, new).items():
            row = found.setdefault(kind, Left())
            here = (mask & view.plain & usable).bit_count()
            row.most += (mask & view.plain).bit_count()
            for group in view.groups:
                local = group.gather(mask & group.mask)
                if local:
                    count, exact = _kept(counts, group.state, group.gather(mask & group.mask & usable))
                    most, whole = _kept(counts, group.fresh, local)
                    here, row.most = here + count, row.most + most
                    row.exact &= exact and whole
            row.left += here
            if here:
                row.nodes[name] = here
    return found


def kind_of_device(device: Device) -> DeviceKind:
    """Return what stands for a device."""
    name = first_attribute(device, PROFILES)
    layout = device.attribute(f"{device.driver}/layout")
    if name and isinstance(layout, str) and layout:
        name = f"{name} ({layout})"
    if not name and device.attribute(f"{device.driver}/{VIRTUAL_FUNCTION}") is True:
        name = "virtual function"
    kind = device.attribute(f"{device.driver}/type")
    return DeviceKind(
        device.driver,
        first_attribute(device, MODELS) or "-",
        name or (kind if isinstance(kind, str) else "device"),
    )


def _kinds(view: NodeView, mask: int) -> dict[DeviceKind, int]:
    found: dict[DeviceKind, int] = {}
    for index in bits(mask):
        kind = kind_of_device(view.devices[index])
        found[kind] = found.get(kind, 0) | 1 << index
    return found


def _kept(
    counts: dict[tuple[GroupState, int], tuple[int, bool]], state: GroupState, mask: int
) -> tuple[int, bool]:
    """Return the result for a state; most cards of a cluster are in one of a few."""
    found = counts.get((state, mask))
    if found is None:
        found = counts[state, mask] = most_together(state, mask)
    return found


def most_together(state: GroupState, mask: int, steps: int = STEPS) -> tuple[int, bool]:
    """Return how many devices of the mask fit together, and whether that is proven: else it is at least so many.

    `steps`: choices that are tried.
    """
    best = 0
    type_ = state.group_type
    needs = list(zip(type_.needs, type_.inside, strict=True)) if type_.inside else type_.needs
    seen: dict[tuple[GroupState, int], int] = {}
    stack: list[tuple[GroupState, int, int]] = [(state, mask, 0)]
    while stack:
        here, left, taken = stack.pop()
        best = max(best, taken)
        left &= here.fits
        if taken + here.most(left) <= best or seen.get((here, left), -1) >= taken:
            continue
        seen[here, left] = taken
        steps -= 1
        if steps < 0:
            return best, False
        first = next(bits(left))
        alike = sum(1 << other for other in bits(left) if needs[other] == needs[first])
        # Devices that need the same are interchangeable: without the first of them none is taken.
        stack.append((here, left & ~alike, taken))
        stack.append((here.after(first), left & ~(1 << first), taken + 1))
    return best, True
