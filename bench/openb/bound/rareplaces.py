"""Places for rare requests: those for several devices of one node, or for a device of certain models.

In: the demand, the empty nodes, and every change of a node. Out: the places that a placement takes from each rare request,
and the current price of one place. The last place for an 8-GPU pod has a high price, one of hundreds almost none.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

from bench.openb.model import FreeNode, LostPlaces, PodRequest

MOST_COUNTED = 1 << 17
"""Node states whose places are cached."""


class RarePlaces:
    """Counts the cluster's places for rare requests; `changed` keeps the counts up to date."""

    def __init__(self, demand: Mapping[PodRequest, int], nodes: Iterable[FreeNode]) -> None:
        rare = {
            request: count
            for request, count in demand.items()
            if request.devices > 1 or (request.devices and request.models)
        }
        self._requests = tuple(rare)
        self._demand = tuple(rare.values())
        self._places = lru_cache(MOST_COUNTED)(self._count)
        self._left: Counter[int] = Counter()
        for node in nodes:
            self._left.update(dict(self._places(node)))

    def losses(self, before: FreeNode, after: FreeNode) -> LostPlaces:
        """Return the places that a placement takes from each rare request."""
        left = dict(self._places(after))
        return tuple(
            (index, places - left.get(index, 0))
            for index, places in self._places(before)
            if places != left.get(index, 0)
        )

    def changed(self, before: FreeNode, after: FreeNode) -> None:
        """Count a node's places anew."""
        self._left.subtract(dict(self._places(before)))
        self._left.update(dict(self._places(after)))

    def prices(self) -> list[float]:
        """Return the price of one place for each rare request: (pods in the demand / places left) squared.

        Squared because a place has hardly any value while there are more than enough, and must not be traded for a
        slightly better fit once there are too few.
        """
        return [(count / max(self._left[index], 1)) ** 2 for index, count in enumerate(self._demand)]

    def _count(self, free: FreeNode) -> tuple[tuple[int, int], ...]:
        """Return (index, places) for every rare request that fits on such a node."""
        found = []
        for index, request in enumerate(self._requests):
            if free.fits(request):
                places = sum(milli // request.milli for milli in free.free_milli) // request.devices
                if request.cpu:
                    places = min(places, free.cpu // request.cpu)
                if places:
                    found.append((index, places))
        return tuple(found)
