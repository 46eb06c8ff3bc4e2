"""Which devices of a node sit together, as far as strategies care; the same for all nodes of a kind.

In: a view. Out: rows of neighbours.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from apportion.allocator.counters import bits

if TYPE_CHECKING:
    from apportion.allocator.view import NodeView

NEIGHBOURHOODS = ("resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode")
"""Attributes that say which devices sit together, nearest first (API standard attributes)."""


class Layout:
    """Neighbours on a node."""

    __slots__ = ("_rows", "_spots", "_together", "compact")

    def __init__(self, view: "NodeView") -> None:
        self._rows = tuple(tuple(view.values(attribute).values()) for attribute in NEIGHBOURHOODS)
        self._spots: dict[int, tuple[int, ...]] = {}
        self._together: dict[tuple[int, ...], int] = {}
        for index in bits(view.base):
            # A device that lists several places counts for the first, as the strategies count it.
            spot = tuple(next((row for row in rows if row >> index & 1), 0) for rows in self._rows)
            self._spots[index] = spot
            self._together[spot] = self._together.get(spot, 0) | 1 << index
        self.compact = tuple(
            len({self._spots.get(member) for member in group.members}) == 1 for group in view.groups
        )
        """Groups all of whose devices sit in one place."""

    def crowd(self, index: int, free: int) -> tuple[int, ...]:
        """Return how many free devices sit around the device, nearest first."""
        return tuple([(row & free).bit_count() for row in self._spots[index]])

    def firsts(self, mask: int) -> Iterator[int]:
        """Yield the first device of the mask in every place."""
        for devices in self._together.values():
            here = devices & mask
            if here:
                yield (here & -here).bit_length() - 1
