"""Which devices of a node sit together, as far as strategies care; the same for all nodes of a kind.

In: a view. Out: the places of the node, each with its rows of neighbours.
"""

from typing import TYPE_CHECKING

from apportion.allocator.bits import bits

if TYPE_CHECKING:
    from apportion.allocator.node.nodeview import NodeView

NEIGHBOUR_ATTRIBUTES = ("resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode")
"""Attributes that say which devices sit together, nearest first (API standard attributes)."""


class Neighbours:
    """Neighbours on a node."""

    __slots__ = ("_places", "_rows_of", "compact")

    def __init__(self, view: "NodeView") -> None:
        places: dict[tuple[int, ...], int] = {(): view.base}
        for attribute in NEIGHBOUR_ATTRIBUTES:
            places = _cut(places, tuple(view.values(attribute).values()))
        self._places = places
        """The devices of every place, by the rows that they are in: one per attribute, 0 where they have no value."""
        self._rows_of: dict[int, tuple[int, ...]] = {}
        self.compact = tuple(
            any(not group.mask & ~place for place in places.values()) for group in view.groups
        )
        """Groups all of whose devices sit in one place."""

    def crowd(self, index: int, free: int) -> tuple[int, ...]:
        """Return how many free devices sit around the device, nearest first."""
        if not self._rows_of:
            self._rows_of = {one: rows for rows, place in self._places.items() for one in bits(place)}
        return _crowd(self._rows_of[index], free)

    def order(self, free: int) -> tuple[int, ...]:
        """Return the devices of the places with the fewest free ones, then those of the next."""
        found: dict[tuple[int, ...], int] = {}
        for rows, place in self._places.items():
            crowd = _crowd(rows, free)
            found[crowd] = found.get(crowd, 0) | place
        return tuple([found[crowd] for crowd in sorted(found)])


def _crowd(rows: tuple[int, ...], free: int) -> tuple[int, ...]:
    return tuple([(row & free).bit_count() for row in rows])


def _cut(places: dict[tuple[int, ...], int], rows: tuple[int, ...]) -> dict[tuple[int, ...], int]:
    """Tell the devices of each place apart by the rows that they are in."""
    found: dict[tuple[int, ...], int] = {}
    for former, place in places.items():
        left = place
        for row in rows:
            # A device that lists several counts for the first.
            here = left & row
            if here:
                found[(*former, row)] = here
                left ^= here
        if left:
            found[(*former, 0)] = left
    return found
