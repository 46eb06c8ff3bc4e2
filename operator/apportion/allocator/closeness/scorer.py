"""A strategy with a ladder: the ladder chooses among the devices of a node, the strategy among equally close ones.

In: a strategy, a ladder. Out: a strategy, so that whatever ranks nodes need not know of ladders.
"""

from collections.abc import Sequence

from apportion.allocator.closeness.ladder import Ladder
from apportion.allocator.search.candidates import Candidates
from apportion.allocator.search.scorer import Contention, Score, Scorer, is_harmful
from apportion.allocator.search.search import Search


class LadderScorer:
    """One strategy under one ladder."""

    scans = True

    def __init__(self, strategy: Scorer, ladder: Ladder) -> None:
        self.strategy = strategy
        self.ladder = ladder

    def order(self, search: Search, option: Candidates, mask: int) -> Sequence[int]:
        """Return the devices in the strategy's order."""
        return self.strategy.order(search, option, mask)

    def score(self, search: Search) -> Score:
        """Rate a finished search as the strategy does."""
        return self.strategy.score(search)

    def harm(self, search: Search) -> Contention:
        """Return what a finished search takes from others, as the strategy sees it."""
        return self.strategy.harm(search) if is_harmful(self.strategy) else ()

    def toll(self, harm: Contention) -> float:
        """Return what that costs now."""
        return self.strategy.toll(harm) if is_harmful(self.strategy) else 0.0
