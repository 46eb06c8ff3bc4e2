"""The bound's policy: scores a placement by the value it leaves on the node, with the demand of the whole pod list known.

In: how often each request occurs in the list, and the empty nodes. Out: scores of placements. Values of shares, cores
needed per device and rare requests follow from the demand.

value(node) = v * (1 - stranded(free cores / v)), v = sum over devices of the value of their free milli.
score = value(after) - value(before) + BEST_FIT * fullness(after) - RARE_PLACE * price of the lost places.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from bench.openb.bound.rareplaces import RarePlaces
from bench.openb.bound.sharevalues import share_values
from bench.openb.bound.stranding import stranded_fraction
from bench.openb.model import FreeNode, Placement, PodRequest

BEST_FIT = 0.05
"""Whole devices between the fullness of an empty and of a full node: enough to break ties, too little to outweigh values."""

RARE_PLACE = 0.1
"""Price in whole devices of a place that the demand needs exactly once per place left."""

MOST_VALUES = 1 << 17
"""Node states whose value is cached."""


class KnownDemand:
    """Scores placements by the value they leave. Implements `bench.openb.policy.Policy`."""

    def __init__(self, demand: Mapping[PodRequest, int], nodes: Iterable[FreeNode]) -> None:
        nodes = [node.sorted_devices() for node in nodes]
        shares: Counter[int] = Counter()
        for request, count in demand.items():
            if request.devices == 1:
                shares[request.milli] += count
        self._values = share_values(shares)
        self._stranded = stranded_fraction(
            demand, lambda request: request.devices * self._values[request.milli]
        )
        self._rare = RarePlaces(demand, nodes)
        self._most_cpu = max((node.cpu for node in nodes), default=0) or 1
        self._most_milli = max((sum(node.free_milli) for node in nodes), default=0) or 1
        self._value = lru_cache(MOST_VALUES)(self.value)

    def value(self, free: FreeNode) -> float:
        """Return the value of the node's free devices, in whole devices."""
        value = sum(self._values[milli] for milli in free.free_milli)
        return value * (1 - self._stranded(free.cpu / 1000 / value)) if value else 0.0

    def placements(self, free: FreeNode, request: PodRequest) -> Sequence[Placement]:
        """Return the best placement of a pod that fits, for each set of lost places."""
        free = free.sorted_devices()
        before = self._value(free)
        best: dict[object, Placement] = {}
        for left in free.after_placing(request):
            after = left.sorted_devices()
            score = self._value(after) - before + BEST_FIT * self._fullness(after)
            losses = self._rare.losses(free, after)
            if losses not in best or score > best[losses].score:
                best[losses] = Placement(score, after, losses)
        return tuple(best.values())

    def prices(self) -> Sequence[float]:
        """Return the current price of a place for each rare request, in whole devices."""
        return [RARE_PLACE * price for price in self._rare.prices()]

    def placed(self, before: FreeNode, after: FreeNode) -> None:
        """Update the places for rare requests after a node changed."""
        self._rare.changed(before.sorted_devices(), after.sorted_devices())

    def _fullness(self, free: FreeNode) -> float:
        return 1 - free.cpu / self._most_cpu / 2 - sum(free.free_milli) / self._most_milli / 2
