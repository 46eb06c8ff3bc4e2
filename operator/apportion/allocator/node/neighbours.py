"""Neighbours: which devices of a node sit together, as far as strategies care; equal for all nodes of a class.

In: the node's devices by the values of the neighbour attributes. Out: places, each a set of devices with equal values.
"""

from collections.abc import Iterable, Sequence

from apportion.allocator.bits import bits

NEIGHBOUR_ATTRIBUTES = ("resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode")
"""Attributes that say which devices sit together, nearest first (API standard attributes)."""


class Neighbours:
    """The places of a node. Sets of devices are bit masks."""

    __slots__ = ("_places", "_rows_of", "compact")

    def __init__(self, base: int, rows: Iterable[Sequence[int]], groups: Iterable[int]) -> None:
        """`base`: all devices; `rows`: per attribute the devices of each value; `groups`: those that share counters."""
        places: dict[tuple[int, ...], int] = {(): base}
        for values in rows:
            places = _divide(places, values)
        self._places = places
        """The devices of every place, by the rows that they are in: one per attribute, 0 where they have no value."""
        self._rows_of: dict[int, tuple[int, ...]] = {}
        self.compact = tuple(any(not mask & ~place for place in places.values()) for mask in groups)
        """Per group of devices that share counters: whether all of them sit in one place."""

    def crowd(self, index: int, free: int) -> tuple[int, ...]:
        """Return how many free devices have the device's values, nearest attribute first."""
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


def _divide(places: dict[tuple[int, ...], int], rows: Sequence[int]) -> dict[tuple[int, ...], int]:
    """Divide each place by the rows that its devices are in."""
    found: dict[tuple[int, ...], int] = {}
    for former, place in places.items():
        left = place
        for row in rows:
            # A device that lists several values counts for the first.
            here = left & row
            if here:
                found[(*former, row)] = here
                left ^= here
        if left:
            found[(*former, 0)] = left
    return found
