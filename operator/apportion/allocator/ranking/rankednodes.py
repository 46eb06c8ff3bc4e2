"""RankedNodes: a ranking node by node, for queries whose selectors read what differs from node to node.

In: a state's log of changed nodes. Out: the best node.
"""

from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from typing import Protocol

from apportion.allocator.ranking.ranking import Answer, Ranking, SortKey, sort_key
from apportion.allocator.rules.query import Query
from apportion.allocator.search.outcome import Contention, Outcome, Solved
from apportion.allocator.search.scorer import Scorer

MOST_OBSERVED = 4096
"""Outcomes kept by what the query observes of a node."""


class NodeLog(Protocol):
    """What the ranking must know of the state."""

    def since(self, cursor: int) -> tuple[int, Mapping[str, None] | None]:
        """Return the end of the log, and the nodes that changed after the cursor (None: too long ago, look at all)."""
        ...

    def names(self) -> Mapping[str, object]:
        """Return every node."""
        ...


class RankedNodes(Ranking):
    """Outcomes by node."""

    shared = False

    def __init__(self, scorer: Scorer, query: Query, log: NodeLog) -> None:
        super().__init__(scorer, query, MOST_OBSERVED)
        self._log = log
        self._outcomes: dict[str, Outcome] = {}
        self._heaps: dict[Contention, list[tuple[SortKey, int, Solved]]] = {}
        """By contention, since its cost changes all the time."""

    def catch_up(self, answer: Answer) -> None:
        """Ask again for the nodes that changed, where the scorer scans; forget what was known of them."""
        self._cursor, changed = self._log.since(self._cursor)
        names = self._log.names()
        if changed is None:
            self._outcomes.clear()
            self._heaps.clear()
            changed = dict.fromkeys(names)
        for name in changed:
            self._outcomes.pop(name, None)
            if self.scorer.scans and name in names:
                self.learn(name, answer(name))

    def learn(self, name: str, outcome: Outcome) -> None:
        """Keep the outcome of a node."""
        if isinstance(outcome, Solved):
            # Every node has an object of its own: by it its entry in the heap is told from an older one.
            outcome = Solved(
                outcome.ranks, outcome.score, outcome.picks, outcome.contention, has_picks=outcome.has_picks
            )
        self._outcomes[name] = outcome
        if isinstance(outcome, Solved):
            self._stamp += 1
            heap = self._heaps.setdefault(outcome.contention, [])
            heappush(heap, ((outcome.ranks, outcome.score, name), self._stamp, outcome))
            if len(heap) > 64 + 4 * len(self._outcomes):
                self._heaps[outcome.contention] = [entry for entry in heap if self._is_current(entry)]
                heapify(self._heaps[outcome.contention])

    def correct(self, name: str, outcome: Outcome) -> None:
        """Replace an estimate: the entry in the heap is out of date from now on."""
        self.learn(name, outcome)

    def outcome(self, name: str) -> Outcome | None:
        """Return what is known of a node; None: nothing, it changed since."""
        return self._outcomes.get(name)

    def best(self) -> tuple[str, Solved] | None:
        """Return the best node, if any can serve."""
        tops = [top for heap in self._heaps.values() if (top := self._top(heap)) is not None]
        if not tops:
            return None
        best = tops[0]
        if len(tops) > 1:
            best = min(tops, key=lambda top: sort_key(self.scorer, top[2], top[0][2]))
        return best[0][2], best[2]

    def _top(self, heap: list[tuple[SortKey, int, Solved]]) -> tuple[SortKey, int, Solved] | None:
        while heap:
            if self._is_current(heap[0]):
                return heap[0]
            heappop(heap)
        return None

    def _is_current(self, entry: tuple[SortKey, int, Solved]) -> bool:
        return self._outcomes.get(entry[0][2]) is entry[2]
