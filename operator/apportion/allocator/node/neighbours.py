"""Neighbours: the devices of a node with equal PCIe root and NUMA node. Nodes of a class share one object.

In: device masks by value of the neighbour attributes. Out: neighbourhoods (devices with equal values of all of them), and
how many free devices each has.
"""

from collections.abc import Iterable, Sequence

from apportion.allocator.bits import bits

NEIGHBOUR_ATTRIBUTES = ("resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode")
"""The standard attributes that define a neighbourhood, nearest first."""


class Neighbours:
    """The neighbourhoods of a node. Sets of devices are bit masks."""

    __slots__ = ("_neighbourhoods", "_rows_of", "compact")

    def __init__(self, base: int, rows: Iterable[Sequence[int]], groups: Iterable[int]) -> None:
        """`base`: all devices; `rows`: device masks of the values, per attribute; `groups`: masks of the counter groups."""
        neighbourhoods: dict[tuple[int, ...], int] = {(): base}
        for values in rows:
            neighbourhoods = _split(neighbourhoods, values)
        self._neighbourhoods = neighbourhoods
        """The devices of each neighbourhood, by the masks of their values: one per attribute, 0 without a value."""
        self._rows_of: dict[int, tuple[int, ...]] = {}
        self.compact = tuple(
            any(not mask & ~devices for devices in neighbourhoods.values()) for mask in groups
        )
        """Per counter group: whether one neighbourhood contains all its devices."""

    def crowd(self, index: int, free: int) -> tuple[int, ...]:
        """Return how many free devices share the device's value, per attribute, nearest first."""
        if not self._rows_of:
            self._rows_of = {
                member: rows for rows, devices in self._neighbourhoods.items() for member in bits(devices)
            }
        # As _free_counts does; every device that may be taken is asked about.
        return tuple([(row & free).bit_count() for row in self._rows_of[index]])

    def order(self, free: int) -> tuple[int, ...]:
        """Return device masks of the neighbourhoods, those with the fewest free devices first."""
        found: dict[tuple[int, ...], int] = {}
        for rows, devices in self._neighbourhoods.items():
            counts = _free_counts(rows, free)
            found[counts] = found.get(counts, 0) | devices
        return tuple([found[counts] for counts in sorted(found)])


def _free_counts(rows: tuple[int, ...], free: int) -> tuple[int, ...]:
    return tuple([(row & free).bit_count() for row in rows])


def _split(neighbourhoods: dict[tuple[int, ...], int], rows: Sequence[int]) -> dict[tuple[int, ...], int]:
    """Split each neighbourhood by the values of one more attribute."""
    found: dict[tuple[int, ...], int] = {}
    for former, devices in neighbourhoods.items():
        left = devices
        for row in rows:
            # A device with a list of values counts for the first one.
            inside = left & row
            if inside:
                found[(*former, row)] = inside
                left ^= inside
        if left:
            found[(*former, 0)] = left
    return found
