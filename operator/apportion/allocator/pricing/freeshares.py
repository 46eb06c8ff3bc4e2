"""FreeShares: what shares leave of a node's devices, kept until the node changes.

In: a node's view, the demand's room for places. Out: what is in use by device, and the places that further shares take.
"""

from collections.abc import Mapping
from typing import NamedTuple

from apportion.allocator.memo import Memo
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.pricing.places import Rooms, Uses, fits, free_devices
from apportion.allocator.pricing.prices import DemandPrices

MOST_NODES = 8192
"""Nodes whose free shares are kept."""

_NOTHING: Mapping[str, int] = {}


class FreeShares(NamedTuple):
    """One node at one time."""

    used: Mapping[int, Mapping[str, int]]
    """`NodeView.used` at that time: another object after a change."""
    exclusive: int
    in_use: Mapping[int, tuple[tuple[str, int], ...]]
    """Key of what is in use, by device; devices without shares have none."""
    rooms: Rooms
    free: tuple[int, ...]
    """By room for places, the devices with enough left."""

    @classmethod
    def of(cls, view: NodeView, rooms: Rooms) -> "FreeShares":
        """Return what is left of a node now."""
        in_use = {index: tuple(used.items()) for index, used in view.used.items()}
        free = tuple([free_devices(view, room) for room in rooms])
        return cls(view.used, view.exclusive, in_use, rooms, free)

    def places(self) -> dict[int, int]:
        """Return how many claims of each demand the node has room for."""
        return {
            number: free.bit_count() // count
            for room, free in zip(self.rooms, self.free, strict=True)
            for number, count in room.counts
        }

    def lost_places(self, view: NodeView, shares: Uses) -> list[int]:
        """Return the demands that lose a place to these shares, each as often as it loses one."""
        lost: list[int] = []
        for room, free in zip(self.rooms, self.free, strict=True):
            before = after = free.bit_count()
            for index, most in room.devices:
                if index in shares and free >> index & 1:
                    after -= not fits(most, view.used.get(index, _NOTHING), shares[index])
            if after < before:
                for number, count in room.counts:
                    lost += [number] * (before // count - after // count)
        return lost


class FreeSharesOfNodes:
    """The free shares of nodes under one demand mix."""

    def __init__(self, prices: DemandPrices) -> None:
        self._prices = prices
        self._kept: Memo[NodeView, FreeShares] = Memo(MOST_NODES)

    def of(self, view: NodeView) -> FreeShares:
        """Return what shares leave of the node's devices. Hot path."""
        found = self._kept.get(view)
        if found is None or found.used is not view.used or found.exclusive != view.exclusive:
            found = self._kept[view] = FreeShares.of(view, self._prices.of(view).rooms)
        return found
