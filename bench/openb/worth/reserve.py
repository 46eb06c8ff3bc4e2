"""Places that rare requests need: several devices of one node at once, or a device of one model.

In: demand and nodes. Out: for every such request how many places are left in the cluster, and so what one is worth.
The last place for an 8-GPU pod is worth keeping; one of hundreds is not.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

from bench.openb.worth.free import Ask, Free
from bench.openb.worth.way import Losses

MOST_COUNTED = 1 << 17
"""Node states whose places are remembered."""


class Reserve:
    """What is left for rare requests. Follows the cluster through `changed`."""

    def __init__(self, demand: Mapping[Ask, int], nodes: Iterable[Free]) -> None:
        self._asks: list[Ask] = []
        self._demand: list[int] = []
        for ask, count in _kinds(demand).items():
            self._asks.append(ask)
            self._demand.append(count)
        self._places = lru_cache(MOST_COUNTED)(self._count)
        self._left = [0] * len(self._asks)
        for node in nodes:
            for index, places in self._places(node):
                self._left[index] += places

    def losses(self, before: Free, after: Free) -> Losses:
        """Return the places that a placement takes from each rare request."""
        left = dict(self._places(after))
        return tuple(
            (index, places - left.get(index, 0))
            for index, places in self._places(before)
            if places != left.get(index, 0)
        )

    def changed(self, before: Free, after: Free) -> None:
        """Learn that a node has changed."""
        for index, places in self._places(before):
            self._left[index] -= places
        for index, places in self._places(after):
            self._left[index] += places

    def prices(self) -> list[float]:
        """Return what one place is worth: the demand for each place left, squared.

        Squared, since a place is worth next to nothing as long as there are more than enough, and must not be had for a
        little best fit once there are too few.
        """
        return [(count / max(left, 1)) ** 2 for count, left in zip(self._demand, self._left, strict=True)]

    def _count(self, free: Free) -> tuple[tuple[int, int], ...]:
        """Return (request, places) for every rare request that has a place on a node like this."""
        found = []
        for index, ask in enumerate(self._asks):
            if free.holds(ask):
                # A request for whole or shared devices takes as many places as its devices leave room for.
                places = sum(room // ask.milli for room in free.rooms) // ask.devices
                if ask.cpu:
                    places = min(places, free.cpu // ask.cpu)
                if places:
                    found.append((index, places))
        return tuple(found)


def _kinds(demand: Mapping[Ask, int]) -> Counter[Ask]:
    """Return the rare requests."""
    kinds: Counter[Ask] = Counter()
    for ask, count in demand.items():
        if ask.devices > 1 or (ask.devices and ask.models):
            kinds[ask] += count
    return kinds
