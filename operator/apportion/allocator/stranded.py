"""Nodes where cpu or memory is short, and how they compare with others for one question.

In: a demand with what its pods take beside devices. Out: places (see `ranking`) that count the devices which would be
stranded. Only the strategy LeastFragmentation asks; nodes with plenty of both stay as they are ranked.
"""

from collections.abc import Set as AbstractSet
from typing import Self

from apportion.allocator.closeness.scorer import LadderScorer
from apportion.allocator.demand import Demand
from apportion.allocator.equivalence.nodestate import NodeState
from apportion.allocator.facts.host import HostDemand, HostResources
from apportion.allocator.pricing.stranding import Stranding
from apportion.allocator.ranking.sortkey import SortKey
from apportion.allocator.rules.query import NamedQuery
from apportion.allocator.search.outcome import Solved
from apportion.allocator.search.scorer import Scorer
from apportion.allocator.state import State
from apportion.allocator.strategies.least_fragmentation import LeastFragmentation


class Stranded:
    """One question's look at cpu and memory."""

    __slots__ = ("_host", "_known", "_shape", "_state", "_stranding", "nodes")

    def __init__(self, state: State, shape: NamedQuery, host: HostDemand, stranding: Stranding) -> None:
        self._state = state
        self._shape = shape
        self._host = host
        self._stranding = stranding
        self._known: dict[tuple[NodeState, int, HostResources], int] = {}
        """By outcome, too; outcomes outlive the question."""
        self.nodes: AbstractSet[str] = state.short(stranding, host, shape)
        """Those that cannot be compared by devices alone."""

    @classmethod
    def of(cls, state: State, demand: Demand, shape: NamedQuery, scorer: Scorer) -> Self | None:
        """Return the look; None where devices alone decide."""
        strategy = scorer.strategy if isinstance(scorer, LadderScorer) else scorer
        if demand.host is None or not isinstance(strategy, LeastFragmentation):
            return None
        found = cls(state, shape, demand.host, strategy.stranding)
        return found if found.nodes else None

    def place(self, place: SortKey, outcome: Solved) -> SortKey:
        """Return the place with what would be stranded added to what is lost."""
        ranks, score, name = place
        left = self._state.hosts.beside(name, self._host)
        if left is None:
            return place
        standing = self._state.standing(name)
        key = standing, id(outcome), left
        more = self._known.get(key)
        if more is None:
            more = self._known[key] = self._stranding.change(
                self._host, left, standing, self._state.view(name), self._shape, outcome.picks
            )
        # What is lost stands before what is left over, and both stand last, also behind a ladder's levels.
        return (ranks, (*score[:-2], score[-2] + more, score[-1]), name) if more else place
