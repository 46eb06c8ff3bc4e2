"""Places: room for claims of several shared devices of one node, such as eight whole GPUs of which each could be shared.

In: a node's view, a demand mix. Out: how many such claims fit on the node, and the places that a choice takes from them. Room
for several devices without sharing is `NodePrices.room`.
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
                rows.append(
                    (index, {name: capacity[name].value.nano - one.nano for name, one in taken.items()})
                )
        if len(rows) >= alternative.count:
            key = tuple([(index, tuple(most.items())) for index, most in rows])
            devices_of[key] = tuple(rows)
            found.setdefault(key, []).append((number, alternative.count))
    return tuple([RoomForPlaces(devices_of[key], tuple(counts)) for key, counts in found.items()])


def part(view: NodeView, devices: int, alternative: Alternative) -> float:
    """Return the part that a request takes of the scarcest capacity of the first of these devices."""
    index = (devices & -devices).bit_length() - 1
    taken = view.charge(index, alternative)
    if not isinstance(taken, dict):
        return 0.0
    capacity = view.devices[index].capacity
    return max(
        [one.nano / capacity[name].value.nano for name, one in taken.items() if capacity[name].value.nano],
        default=0.0,
    )


def places(view: NodeView, rooms: Rooms) -> dict[int, int]:
    """Return how many claims of each demand the node has room for."""
    return {
        number: free // count
        for room in rooms
        for free in [_free(view, room)]
        for number, count in room.counts
    }


def lost_places(view: NodeView, rooms: Rooms, shares: Uses) -> list[int]:
    """Return the demands that lose a place to these shares, each as often as it loses one."""
    lost: list[int] = []
    for room in rooms:
        before = _free(view, room)
        after = before - sum(
            [
                index in shares and _fits(view, index, most) and not _fits(view, index, most, shares[index])
                for index, most in room.devices
            ]
        )
        if after < before:
            for number, count in room.counts:
                lost += [number] * (before // count - after // count)
    return lost


def _free(view: NodeView, room: RoomForPlaces) -> int:
    return sum([_fits(view, index, most) for index, most in room.devices])


def _fits(view: NodeView, index: int, most: Mapping[str, int], own: Mapping[str, int] = _NOTHING) -> bool:
    if view.exclusive >> index & 1:
        return False
    used = view.used.get(index, _NOTHING)
    if not used and not own:
        return all(amount >= 0 for amount in most.values())
    return all(used.get(name, 0) + own.get(name, 0) <= amount for name, amount in most.items())
