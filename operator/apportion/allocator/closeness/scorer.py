"""LadderScorer: a strategy with a ladder. The ladder compares sets of devices, the strategy equally close sets.

In: a strategy, a ladder. Out: a scorer, so that rankings do not depend on ladders.
"""

from collections.abc import Sequence

from apportion.allocator.closeness.closest import closest
from apportion.allocator.closeness.ladder import Ladder
from apportion.allocator.search.candidates import Candidates
from apportion.allocator.search.outcome import Score, Solved
from apportion.allocator.search.scorer import Scorer
from apportion.allocator.search.search import Pick, Search


class LadderScorer(Scorer):
    """One strategy under one ladder."""

    def __init__(self, strategy: Scorer, ladder: Ladder) -> None:
        self._strategy = strategy
        self.ladder = ladder
        self.compared = ladder.names
        self.mixed = ladder.mixed

    @property
    def strategy(self) -> Scorer:
        """The strategy without the ladder."""
        return self._strategy

    def order(self, search: Search, candidates: Candidates, mask: int) -> Sequence[int]:
        """Return the devices in the strategy's order."""
        return self._strategy.order(search, candidates, mask)

    def score(self, search: Search) -> Score:
        """Return the strategy's score of a finished search."""
        return self._strategy.score(search)

    def finish(self, search: Search, ranks: tuple[int, ...], picks: tuple[Pick, ...]) -> Solved:
        """Return the closest devices for the alternatives that the search chose."""
        best, cost, score = closest(search, ranks, picks, self._strategy, self.ladder)
        return Solved(ranks, (*cost, *score) if self.ladder.across else score, best)
