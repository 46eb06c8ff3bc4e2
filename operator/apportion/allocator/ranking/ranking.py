"""Ranking: nodes ordered by their outcomes for one query under one scorer.

In: the nodes that changed since the last call, and a function that returns a node's outcome. Out: the best node. An
unchanged node costs nothing, and a claim that no node can serve costs a look at an empty heap.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

from apportion.allocator.memo import Memo
from apportion.allocator.rules.query import Query
from apportion.allocator.search.outcome import CUT_SHORT, EXHAUSTED, Contention, Outcome, Score, Solved
from apportion.allocator.search.scorer import Scorer
from apportion.allocator.search.searchbudget import STEPS, PausedSearch, SearchBudget

SortKey: TypeAlias = tuple[tuple[int, ...], Score, str]
"""Ranks of the alternatives, score, node name. The smallest wins."""

Answer: TypeAlias = Callable[[str], Outcome]
"""Returns the outcome of a node, by its name."""

MOST_SPECIAL = 4096
"""Outcomes with preferred or excluded devices kept per ranking."""
MOST_SEARCHED = 4096
"""Outcomes with picks kept per ranking of states that are estimated."""
MOST_HOST_RANKINGS = 64
"""Rankings with cpu and memory kept per ranking, one for each request of them."""
MOST_DIAGNOSES = 4096
"""Diagnoses kept per ranking."""
LEAST_STEPS = 256
"""Steps that the search of a node may always do: eight times the most devices that a claim gets."""


class Ranking(ABC):
    """Outcomes of one query under one scorer."""

    shared: bool
    """Whether outcomes are kept by node state; else by node."""

    def __init__(self, scorer: Scorer, query: Query, most_observed: int) -> None:
        self.scorer = scorer
        self.strategy = scorer.strategy
        self.query = query
        """One of those that share the ranking, whose outcomes it has."""
        self._exhausted = 0.0
        """Searches that have used up their steps, as far as they are not forgotten."""
        self._former = 0.0
        """What that was when the last decision began."""
        self._decided: object = None
        """The moment of the state at the last decision; None: the one that has begun was not made."""
        self._paused = PausedSearch()
        self.observed: Memo[object, Outcome] = Memo(most_observed)
        """Outcomes by everything that the query can observe on a node."""
        self.special: Memo[object, Outcome] = Memo(MOST_SPECIAL)
        """Outcomes where some devices are preferred or excluded, by the node's `version` and these devices."""
        self.searched: Memo[object, Outcome] = Memo(MOST_SEARCHED)
        """Outcomes with picks, by state, where the kept ones are estimates: what nodes strand for lack of cpu or memory needs picks."""
        self.host_rankings: Memo[object, Any] = Memo(MOST_HOST_RANKINGS)
        """Rankings of nodes that are short of cpu or memory, by what the pods request (`hostranking`)."""
        self.diagnoses: Memo[object, Any] = Memo(MOST_DIAGNOSES)
        """Diagnoses of nodes, by query and node state, for explanations."""
        self.ordinary = True
        """Whether no outcome ever kept was an error, a broken pool or an exhausted search."""
        self.refusal: object = None
        """The latest refusal."""
        self.refused: object = None
        """What it holds for: the moment of the state, the query, allowed nodes, excluded and preferred devices."""
        self._cursor = -1
        self._heaps: dict[Contention, list[Any]] = {}
        """Heaps of ranks, score, node name, stamp, ..., outcome; one per contention, whose cost changes with the cluster."""
        self._stamp = 0
        """Number of the latest heap entry; makes entries unequal, so that heaps never compare outcomes."""

    @property
    def is_new(self) -> bool:
        """Whether the ranking never caught up."""
        return self._cursor < 0

    def budget(self, *, pauses: bool) -> SearchBudget:
        """Return what the next search of a node may do.

        All nodes on which the steps are used up take twice as many as one does, and each what a search without dead ends needs. Slices of searches
        that were dropped count, too: where all nodes change all the time, the next ones end nevertheless.
        """
        given_up = self._exhausted + self._paused.given_up
        steps = int(STEPS / (1 + given_up) ** 2) if given_up else STEPS
        return SearchBudget(max(steps, LEAST_STEPS), self._paused, pauses)

    @property
    def gives_all_steps(self) -> bool:
        """Whether the next search of a node may do all steps."""
        return not self._exhausted and not self._paused.given_up

    def counted(self, outcome: Outcome) -> Outcome:
        """Count an outcome for which the steps were used up, and return it."""
        self._exhausted += outcome is EXHAUSTED or outcome is CUT_SHORT
        return outcome

    def begin(self, moment: object) -> None:
        """Begin with the searches for a decision about the state as it is, where the one before was made at another moment.

        Half of the searches that have used up their steps are forgotten then; all of them, if the decision before had none. At the same moment the
        answer stays the same.
        """
        if self._decided in (None, moment):
            return
        had_some = self._exhausted > self._former
        self._exhausted = self._exhausted / 2 if had_some else 0.0
        self._paused.dropped = self._paused.dropped // 2 if had_some else 0
        self._former, self._decided = self._exhausted, None

    def decided(self, moment: object) -> None:
        """Learn that a decision is made at this moment of the state."""
        if not self.gives_all_steps:
            self._decided = moment

    def known(self, outcome: Outcome | None) -> Outcome | None:
        """Return an outcome that was kept; None where the search was cut short, and may do all steps now."""
        return None if outcome is CUT_SHORT and self.gives_all_steps else outcome

    @abstractmethod
    def catch_up(self, answer: Answer) -> None:
        """Renew the outcomes of the nodes that changed."""

    @abstractmethod
    def outcome(self, name: str) -> Outcome | None:
        """Return the kept outcome of a node; None if it changed since."""

    @abstractmethod
    def version(self, name: str) -> object:
        """Return what is equal as long as a node's outcomes are, and on nodes that share them."""

    @abstractmethod
    def learn(self, name: str, outcome: Outcome) -> None:
        """Keep the outcome of a node."""

    @abstractmethod
    def correct(self, name: str, outcome: Outcome) -> None:
        """Replace the estimate of the best node by its searched outcome."""

    @abstractmethod
    def _top(self, heap: list[Any]) -> Any:
        """Return the first entry of a heap that is not out of date, None if there is none."""

    def best(self) -> tuple[str, Solved] | None:
        """Return the best node, if any can serve."""
        tops = [top for heap in self._heaps.values() if (top := self._top(heap)) is not None]
        if not tops:
            return None
        best = tops[0]
        if len(tops) > 1:
            best = min(tops, key=lambda top: sort_key(self.scorer, top[-1], top[2]))
        return best[2], best[-1]


def sort_key(scorer: Scorer, outcome: Solved, name: str) -> SortKey:
    """Return the key of a node, with the present cost of contention."""
    return with_cost(scorer, (outcome.ranks, outcome.score, name), outcome.contention)


def with_cost(scorer: Scorer, key: SortKey, contention: Contention) -> SortKey:
    """Return a key with the present cost of contention."""
    if not contention:
        return key
    ranks, score, name = key
    # A score starts with the bonus of preferred devices; the loss follows, and contention adds to it.
    return ranks, (score[0], score[1] + scorer.contention_cost(contention), *score[2:]), name
