"""Nodes where cpu or memory is short, and how they compare with others for one question.

In: a demand with what its pods take beside devices. Out: places (see `ranking`) that count the devices which would be
stranded. Only the strategy LeastFragmentation asks; nodes with plenty of both stay as they are ranked.
"""

from collections.abc import Set as AbstractSet
from typing import Self

from apportion.allocator.demand import Demand
from apportion.allocator.host import Amounts, Host
from apportion.allocator.ladder.laddered import Laddered
from apportion.allocator.outcome import Solved
from apportion.allocator.ranking import Place
from apportion.allocator.score.least_fragmentation import LeastFragmentation
from apportion.allocator.score.strategy import Scorer
from apportion.allocator.shape import Shape
from apportion.allocator.standing import Standing
from apportion.allocator.state import State
from apportion.allocator.worth.stranding import Stranding


class Stranded:
    """One question's look at cpu and memory."""

    __slots__ = ("_host", "_known", "_shape", "_state", "_stranding", "nodes")

    def __init__(self, state: State, shape: Shape, host: Host, stranding: Stranding) -> None:
        self._state = state
        self._shape = shape
        self._host = host
        self._stranding = stranding
        self._known: dict[tuple[Standing, int, Amounts], int] = {}
        """By outcome, too; outcomes outlive the question."""
        self.nodes: AbstractSet[str] = state.short(stranding, host, shape)
        """Those that cannot be compared by devices alone."""

    @classmethod
    def of(cls, state: State, demand: Demand, shape: Shape, scorer: Scorer) -> Self | None:
        """Return the look; None where devices alone decide."""
        strategy = scorer.strategy if isinstance(scorer, Laddered) else scorer
        if demand.host is None or not isinstance(strategy, LeastFragmentation):
            return None
        found = cls(state, shape, demand.host, strategy.stranding)
        return found if found.nodes else None

    def place(self, place: Place, outcome: Solved) -> Place:
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
