"""Places: room for claims of several shared devices of one node, such as eight whole GPUs of which each could be shared.

In: a node's view, a demand mix. Out: how many such claims fit on the node, and the places
that a choice takes from them. Room for several devices without sharing is `NodePrices.room`.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from apportion.allocator.bits import bits
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.pricing.demandmix import DemandMix
from apportion.allocator.rules.query import Alternative
from apportion.allocator.rules.selectors import SelectorLookup

Uses: TypeAlias = Mapping[int, Mapping[str, int]]
"""Amounts in 10^-9 by capacity name, by device."""

_NOTHING: Mapping[str, int] = {}


class RoomForPlaces(NamedTuple):
    """The devices of a node that could serve some of the demand's claims, and how many each of these takes."""

    devices: tuple[tuple[int, Mapping[str, int]], ...]
    """Device, and by capacity the amount that others may use of it, in 10^-9."""
    counts: tuple[tuple[int, int], ...]
    """Number of the demand, and the devices that one claim takes."""


Rooms: TypeAlias = tuple[RoomForPlaces, ...]


def several(mix: DemandMix) -> dict[Alternative, int]:
    """Return the number of each alternative of the mix that takes several devices."""
    found: dict[Alternative, int] = {}
    for entry in mix:
        if entry.alternative is not None and entry.count > 1:
            found.setdefault(entry.alternative, len(found))
    return found


def room_for_places(view: NodeView, numbers: Mapping[Alternative, int], selectors: SelectorLookup) -> Rooms:
    """Return the room on nodes of a class; demands that take the same of the same devices are one."""
    found: dict[object, list[tuple[int, int]]] = {}
    devices_of: dict[object, tuple[tuple[int, Mapping[str, int]], ...]] = {}
    for alternative, number in numbers.items():
        mask = view.selected(alternative, selectors)[0] & view.tolerating(alternative.tolerations)
        rows = []
        for index in bits(mask & view.plain & view.shareable):
            taken = view.charge(index, alternative)
            if isinstance(taken, dict):
                capacity = view.devices[index].capacity
                most = {name: capacity[name].value.nano - one.nano for name, one in taken.items()}
                if min(most.values(), default=0) >= 0:
                    rows.append((index, most))
        if len(rows) >= alternative.count:
            key = tuple([(index, tuple(most.items())) for index, most in rows])
            devices_of[key] = tuple(rows)
            found.setdefault(key, []).append((number, alternative.count))
    return tuple([RoomForPlaces(devices_of[key], tuple(counts)) for key, counts in found.items()])


def part(view: NodeView, devices: int, alternative: Alternative) -> float:
    """Return the part that a request takes of the scarcest capacity of the first of these devices; one that takes more than there is, all of it.

    A float could not hold what is asked for: the API server stores a request of any amount.
    """
    index = (devices & -devices).bit_length() - 1
    taken = view.charge(index, alternative)
    if not isinstance(taken, dict):
        return 0.0
    capacity = view.devices[index].capacity
    return max(
        [
            min(one.nano, whole) / whole
            for name, one in taken.items()
            if (whole := capacity[name].value.nano) > 0
        ],
        default=0.0,
    )


def free_devices(view: NodeView, room: RoomForPlaces) -> int:
    """Return the mask of the devices with enough left for one such claim."""
    free, exclusive, uses = 0, view.exclusive, view.used
    for index, most in room.devices:
        if exclusive >> index & 1:
            continue
        used = uses.get(index)
        if used is None or fits(most, used):
            free |= 1 << index
    return free


def fits(most: Mapping[str, int], used: Mapping[str, int], more: Mapping[str, int] = _NOTHING) -> bool:
    """Say whether `used` and `more` together take no more than others may. Hot path."""
    for name, amount in most.items():  # noqa: SIM110 - a generator takes twice the time
        if used.get(name, 0) + more.get(name, 0) > amount:
            return False
    return True
