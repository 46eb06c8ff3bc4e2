"""FreeShares: what shares leave of a node's devices, kept until the node changes.

In: a node's view, the demand's room for places. Out: what is in use by device, and the places that further shares take.
"""

from collections.abc import Mapping
from typing import NamedTuple

from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.pricing.places import Rooms, Uses, fits, free_devices

_NOTHING: Mapping[str, int] = {}


class FreeShares(NamedTuple):
    """One node at one time."""

    used: Mapping[int, Mapping[str, int]]
    """`NodeView.used` at that time: another object after a change."""
    exclusive: int
    in_use: Mapping[int, tuple[tuple[str, int], ...]]
    """Key of what is in use, by device; devices without shares have none."""
    free: tuple[int, ...]
    """By room for places, the devices with enough left."""

    @classmethod
    def of(cls, view: NodeView, rooms: Rooms) -> "FreeShares":
        """Return what is left of a node now."""
        in_use = {index: tuple(used.items()) for index, used in view.used.items()}
        free = tuple([free_devices(view, room) for room in rooms])
        return cls(view.used, view.exclusive, in_use, free)

    def lost_places(self, view: NodeView, rooms: Rooms, shares: Uses) -> list[int]:
        """Return the demands that lose a place to these shares, each as often as it loses one."""
        lost: list[int] = []
        for room, free in zip(rooms, self.free, strict=True):
            before = after = free.bit_count()
            for index, most in room.devices:
                if index in shares and free >> index & 1:
                    after -= not fits(most, view.used.get(index, _NOTHING), shares[index])
            if after < before:
                for number, count in room.counts:
                    lost += [number] * (before // count - after // count)
        return lost
