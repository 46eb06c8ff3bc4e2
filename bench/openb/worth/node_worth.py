"""What a node is worth to the demand, and which placement costs the least of it.

In: how often each request occurs, and the empty nodes. Out: scores of placements. Everything that depends on the demand
is learnt from it: prices of shares, cores wanted beside a device, rare requests.

worth(node) = v * (1 - useless(free cores / v)), v = sum over devices of the value of their room.
score = worth(after) - worth(before) + BEST_FIT * how full the node is then - RESERVE * price of the places lost.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from bench.openb.worth.cores import useless_part
from bench.openb.worth.free import Ask, Free
from bench.openb.worth.reserve import Reserve
from bench.openb.worth.shares import room_values
from bench.openb.worth.way import Way

BEST_FIT = 0.05
"""Devices of worth between an empty and a full node: enough to choose among equals, too little to overrule worth."""

RESERVE = 0.1
"""Devices of worth of a place that the demand will need once for every one left."""

MOST_KNOWN = 1 << 17
"""Node states whose worth is remembered."""


class NodeWorth:
    """Scores placements by the worth that they leave."""

    def __init__(self, demand: Mapping[Ask, int], nodes: Iterable[Free]) -> None:
        nodes = [node.ordered() for node in nodes]
        shares: Counter[int] = Counter()
        for ask, count in demand.items():
            if ask.devices == 1:
                shares[ask.milli] += count
        self._values = room_values(shares)
        self._useless = useless_part(demand, lambda ask: ask.devices * self._values[ask.milli])
        self._reserve = Reserve(demand, nodes)
        self._most_cpu = max((node.cpu for node in nodes), default=0) or 1
        self._most_room = max((sum(node.rooms) for node in nodes), default=0) or 1
        self._worth = lru_cache(MOST_KNOWN)(self.worth)

    def worth(self, free: Free) -> float:
        """Return what the node's room is worth, in whole devices."""
        value = sum(self._values[room] for room in free.rooms)
        return value * (1 - self._useless(free.cpu / 1000 / value)) if value else 0.0

    def ways(self, free: Free, ask: Ask) -> Sequence[Way]:
        """Return the best way to place a pod that fits, for each set of places that ways may cost."""
        free = free.ordered()
        before = self._worth(free)
        best: dict[object, Way] = {}
        for left in free.ways(ask):
            after = left.ordered()
            score = self._worth(after) - before + BEST_FIT * self._fullness(after)
            losses = self._reserve.losses(free, after)
            if losses not in best or score > best[losses].score:
                best[losses] = Way(score, after, losses)
        return tuple(best.values())

    def prices(self) -> Sequence[float]:
        """Return what a place for each rare request is worth now, in whole devices."""
        return [RESERVE * price for price in self._reserve.prices()]

    def placed(self, before: Free, after: Free) -> None:
        """Learn that a node has changed."""
        self._reserve.changed(before.ordered(), after.ordered())

    def _fullness(self, free: Free) -> float:
        return 1 - free.cpu / self._most_cpu / 2 - sum(free.rooms) / self._most_room / 2
