"""FGD as published: take the placement after which the least room is lost to the demand's usual requests.

Weng et al., "Beware of Fragmentation", USENIX ATC 2023. In exact integers: popularities are counts.
"""

import math
from collections.abc import Sequence

from bench.openb.policy import Demand
from bench.openb.worth.free import WHOLE, Ask, Free
from bench.openb.worth.way import Way

COVERED = 0.95
"""Requests are counted from the most frequent on, until they make up this part of the pods."""


class Fgd:
    """The reference policy."""

    def __init__(self, demand: Demand) -> None:
        ordered = sorted(demand.items(), key=_popularity, reverse=True)
        wanted = COVERED * sum(demand.values())
        self._usual: list[tuple[Ask, int]] = []
        kept = 0
        for ask, count in ordered:
            if kept >= wanted:
                break
            self._usual.append((ask, count))
            kept += count
        self._kept = kept
        self._known: dict[Free, int] = {}

    def ways(self, free: Free, ask: Ask) -> Sequence[Way]:
        """Return the first of the best ways: the difference is squeezed into 100 steps, so that ties are common."""
        before = self._lost(free)
        best: Way | None = None
        for after in free.ways(ask):
            gain = (before - self._lost(after)) / self._kept / WHOLE
            score = math.floor(100 / (1 + math.exp(-gain)))
            if best is None or score > best.score:
                best = Way(score, after)
        return (best,) if best is not None else ()

    def prices(self) -> Sequence[float]:
        """Nothing changes its price."""
        return ()

    def placed(self, before: Free, after: Free) -> None:
        """Nothing is learnt."""

    def _lost(self, free: Free) -> int:
        """Return the room that the usual requests cannot use, weighted by how often they come."""
        found = self._known.get(free)
        if found is None:
            found = self._known[free] = self._sum(free)
        return found

    def _sum(self, free: Free) -> int:
        everything, lost = sum(free.rooms), 0
        small: dict[int, tuple[int, int]] = {}
        for ask, count in self._usual:
            if not ask.devices or ask.cpu > free.cpu or (ask.models and free.model not in ask.models):
                lost += count * everything
                continue
            if ask.milli not in small:
                short = [room for room in free.rooms if room < ask.milli]
                small[ask.milli] = len(free.rooms) - len(short), sum(short)
            fitting, useless = small[ask.milli]
            lost += count * (useless if fitting >= ask.devices else everything)
        return lost


def _popularity(entry: tuple[Ask, int]) -> tuple[int, int, int, int, str]:
    ask, count = entry
    return count, ask.cpu, ask.milli, ask.devices, "|".join(sorted(ask.models))
