"""Ranking: the nodes in order for one query under one scorer.

In: what changed since the last time, and a function that answers for a node. Out: the best node. A node without changes
costs nothing; a refused claim costs an empty heap, not a search of all nodes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

from apportion.allocator.memo import Memo
from apportion.allocator.rules.query import Query
from apportion.allocator.search.outcome import Contention, Outcome, Score, Solved
from apportion.allocator.search.scorer import Scorer

SortKey: TypeAlias = tuple[tuple[int, ...], Score, str]
"""Ranks of the alternatives, score, node name: what nodes are compared by. The smallest wins."""

Answer: TypeAlias = Callable[[str], Outcome]
"""Returns the outcome of a node, by its name."""

MOST_SPECIAL = 4096
"""Outcomes with preferred or excluded devices kept per ranking."""
MOST_DIAGNOSES = 4096
"""Diagnoses kept per ranking."""


class Ranking(ABC):
    """Outcomes of one query under one scorer."""

    shared: bool
    """Whether nodes of one state have one outcome; else every node has its own."""

    def __init__(self, scorer: Scorer, query: Query, most_observed: int) -> None:
        self.scorer = scorer
        self.query = query
        """The one that used the ranking last, of those that share it."""
        self.observed: Memo[object, Outcome] = Memo(most_observed)
        """Outcomes by everything that the query can observe of a node."""
        self.special: Memo[object, Outcome] = Memo(MOST_SPECIAL)
        """Outcomes where some devices are preferred or excluded, by state and these devices."""
        self.diagnoses: Memo[object, Any] = Memo(MOST_DIAGNOSES)
        """What nodes lack, by state, for explanations."""
        self.refusal: object = None
        """The refusal last given."""
        self.refused: object = None
        """The moment of the state when it was given, the query and the claims."""
        self._cursor = -1
        self._stamp = 0
        """Keeps heaps from comparing outcomes: entries that are out of date may have equal keys."""

    @property
    def is_new(self) -> bool:
        """Whether no node was looked at yet."""
        return self._cursor < 0

    @abstractmethod
    def catch_up(self, answer: Answer) -> None:
        """Ask again for the nodes that changed."""

    @abstractmethod
    def outcome(self, name: str) -> Outcome | None:
        """Return what is known of a node; None: nothing, it changed since."""

    @abstractmethod
    def learn(self, name: str, outcome: Outcome) -> None:
        """Keep the outcome of a node."""

    @abstractmethod
    def correct(self, name: str, outcome: Outcome) -> None:
        """Replace the estimate of the best node by its searched outcome."""

    @abstractmethod
    def best(self) -> tuple[str, Solved] | None:
        """Return the best node, if any can serve."""


def sort_key(scorer: Scorer, outcome: Solved, name: str) -> SortKey:
    """Return what a node is compared by now."""
    score = outcome.score
    contention: Contention = outcome.contention
    if contention:
        # The first part of a score is what is preferred above all, the second what is lost.
        score = (score[0], score[1] + scorer.contention_cost(contention), *score[2:])
    return outcome.ranks, score, name
