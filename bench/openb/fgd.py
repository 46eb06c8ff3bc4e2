"""FGD as published: choose the placement that adds least fragmentation for the most frequent requests.

Weng et al., "Beware of Fragmentation", USENIX ATC 2023. In exact integers: popularities are counts.
"""

import math
from collections.abc import Sequence

from bench.openb.model import WHOLE, FreeNode, Placement, PodRequest
from bench.openb.policy import Demand

COVERED = 0.95
"""The most frequent requests are counted, until they make up this fraction of the pods."""


class Fgd:
    """Fragmentation gradient descent; implements `bench.openb.policy.Policy`."""

    def __init__(self, demand: Demand) -> None:
        ordered = sorted(demand.items(), key=_popularity, reverse=True)
        enough = COVERED * sum(demand.values())
        self._frequent: list[tuple[PodRequest, int]] = []
        kept = 0
        for request, count in ordered:
            if kept >= enough:
                break
            self._frequent.append((request, count))
            kept += count
        self._kept = kept
        self._known: dict[FreeNode, int] = {}

    def placements(self, free: FreeNode, request: PodRequest) -> Sequence[Placement]:
        """Return the first of the best placements: the score has only 100 steps, so ties are common."""
        before = self._fragmentation(free)
        best: Placement | None = None
        for after in free.after_placing(request):
            gain = (before - self._fragmentation(after)) / self._kept / WHOLE
            score = math.floor(100 / (1 + math.exp(-gain)))
            if best is None or score > best.score:
                best = Placement(score, after)
        return (best,) if best is not None else ()

    def prices(self) -> Sequence[float]:
        """Return no prices: FGD counts no places."""
        return ()

    def placed(self, before: FreeNode, after: FreeNode) -> None:
        """Do nothing: FGD depends on the node alone."""

    def _fragmentation(self, free: FreeNode) -> int:
        """Return the milli that the frequent requests cannot use, weighted by their number of pods."""
        found = self._known.get(free)
        if found is None:
            found = self._known[free] = self._sum(free)
        return found

    def _sum(self, free: FreeNode) -> int:
        everything, lost = sum(free.free_milli), 0
        small: dict[int, tuple[int, int]] = {}
        for request, count in self._frequent:
            if (
                not request.devices
                or request.cpu > free.cpu
                or (request.models and free.model not in request.models)
            ):
                lost += count * everything
                continue
            if request.milli not in small:
                short = [milli for milli in free.free_milli if milli < request.milli]
                small[request.milli] = len(free.free_milli) - len(short), sum(short)
            fitting, useless = small[request.milli]
            lost += count * (useless if fitting >= request.devices else everything)
        return lost


def _popularity(entry: tuple[PodRequest, int]) -> tuple[int, int, int, int, str]:
    request, count = entry
    return count, request.cpu, request.milli, request.devices, "|".join(sorted(request.models))
