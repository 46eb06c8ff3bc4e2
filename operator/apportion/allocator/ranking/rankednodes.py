"""The nodes of one shape in order, best first, one by one: for shapes that only each node can answer for itself.

In: a state's log of touched nodes. Out: the best node. A refused claim costs an empty heap, not a search of all nodes.
"""

from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import Protocol

from apportion.allocator.ranking.alike import Alike
from apportion.allocator.ranking.sortkey import SortKey, sort_key
from apportion.allocator.search.outcome import Outcome, Solved
from apportion.allocator.search.scorer import Contention, Scorer

MOST_ALIKE = 4096
"""Sights of nodes whose answers are kept."""


class NodeLog(Protocol):
    """What a ranking must know of the state."""

    def since(self, cursor: int) -> tuple[int, Mapping[str, None] | None]:
        """Return the end of the log, and the nodes touched after the cursor (None: too long ago, look at all)."""
        ...

    def names(self) -> Mapping[str, object]:
        """Return every node."""
        ...


class RankedNodes:
    """Outcomes of one shape under one strategy."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer
        self._outcomes: dict[str, Outcome] = {}
        self._heaps: dict[Contention, list[tuple[SortKey, int, Solved]]] = {}
        """By what a choice takes from others, since the cost of that changes all the time."""
        self.alike = Alike(MOST_ALIKE)
        self._stamp = 0
        self._cursor = -1
        self.refusal: object = None
        """The explanation last given."""
        self.refused: object = None
        """The state's moment when it was given, and who asked."""

    def catch_up(self, state: NodeLog) -> Iterator[str]:
        """Yield the nodes that must be looked at again; forget what was known of them."""
        self._cursor, touched = state.since(self._cursor)
        if touched is None:
            self._outcomes.clear()
            self._heaps.clear()
            touched = dict.fromkeys(state.names())
        for name in touched:
            self._outcomes.pop(name, None)
            yield name

    def learn(self, name: str, outcome: Outcome) -> None:
        """Remember what a node answered."""
        if isinstance(outcome, Solved):
            # Every node has an object of its own: by it its entry in the heap is told from an older one.
            outcome = Solved(outcome.ranks, outcome.score, outcome.picks, outcome.harm, chosen=outcome.chosen)
        self._outcomes[name] = outcome
        if isinstance(outcome, Solved):
            # The stamp keeps the heap from comparing outcomes: an entry that is out of date may have an equal place.
            self._stamp += 1
            heap = self._heaps.setdefault(outcome.harm, [])
            heappush(heap, ((outcome.ranks, outcome.score, name), self._stamp, outcome))
            if len(heap) > 64 + 4 * len(self._outcomes):
                self._heaps[outcome.harm] = [entry for entry in heap if self._stands(entry)]
                heapify(self._heaps[outcome.harm])

    @property
    def is_new(self) -> bool:
        """Whether no node was looked at yet."""
        return self._cursor < 0

    def outcome(self, name: str) -> Outcome | None:
        """Return what is known of a node; None: nothing, it was touched since."""
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
            if self._stands(heap[0]):
                return heap[0]
            heappop(heap)
        return None

    def _stands(self, entry: tuple[SortKey, int, Solved]) -> bool:
        return self._outcomes.get(entry[0][2]) is entry[2]
