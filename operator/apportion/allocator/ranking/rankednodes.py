"""RankedNodes: a ranking by node, for queries whose selectors read per-node attributes.

In: the state's log of changed nodes. Out: the best node.
"""

from collections.abc import Container, Iterable
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from apportion.allocator.changelog import NodeLog
from apportion.allocator.ranking.ranking import Answer, Ranking
from apportion.allocator.rules.query import Query
from apportion.allocator.search.outcome import CUT_SHORT, NOTHING, Outcome, Score, Solved
from apportion.allocator.search.scorer import Scorer

Entry: TypeAlias = tuple[tuple[int, ...], Score, str, int, Solved]
"""Ranks, score and node name, which are the sort key; a stamp; the outcome."""

MOST_OBSERVED = 4096
"""Outcomes kept by what the query observes on a node."""


class RankedNodes(Ranking):
    """Outcomes by node."""

    shared = False

    def __init__(self, scorer: Scorer, query: Query, log: NodeLog) -> None:
        super().__init__(scorer, query, MOST_OBSERVED)
        self._log = log
        self._outcomes: dict[str, Outcome] = {}
        self._stamps: dict[str, int] = {}
        """The stamp of each node's current heap entry; its other entries are out of date."""
        self._cut_short: dict[str, None] = {}
        """Nodes whose search was cut short."""
        self._behind: dict[str, None] = {}
        """Nodes whose outcomes were dropped, and are to be renewed."""
        self._estimated: dict[str, None] = {}
        """Nodes whose outcome is an estimate."""
        self._versions: dict[str, object] = {}
        """One object for each node until it changes."""
        self._has_caught_up = False

    @property
    def is_new(self) -> bool:
        """Whether the ranking never caught up."""
        return not self._has_caught_up

    def advance(self, answer: Answer, names: Iterable[str] | None = None) -> bool:
        """Renew the outcome of one of these nodes (None: of all); False: all of them are current."""
        self._read_log()
        known = self._log.names()
        while names is None and self._behind and (name := next(iter(self._behind))) not in known:
            del self._behind[name]
        for name in [*self._cut_short, *self._behind] if names is None else names:
            if name in known and self._is_behind(name):
                self.learn(name, answer(name))
                return True
        return False

    def improve(self, answer: Answer, names: Container[str]) -> bool:
        """Replace the estimate of one of these nodes by its searched outcome; False: none of them has one."""
        self._read_log()
        name = next((name for name in self._estimated if name in names), None)
        if name is not None:
            self.learn(name, answer(name))
        return name is not None

    def catch_up(self, answer: Answer) -> None:
        """Drop the outcomes of the nodes that changed; renew them where the scorer compares nodes."""
        self._read_log()
        self._has_caught_up = True
        names = self._log.names()
        for name in [*self._cut_short, *self._behind] if self.scorer.scans else ():
            if name in names and self._is_behind(name):
                self.learn(name, answer(name))
        self._behind.clear()
        self._cut_short = {name: None for name in self._cut_short if name in names}

    def _is_behind(self, name: str) -> bool:
        return name in self._behind or self.known(self._outcomes.get(name)) is None

    def _read_log(self) -> None:
        """Drop the outcomes of the nodes that changed."""
        self._cursor, changed = self._log.since(self._cursor)
        if changed is None:
            self._outcomes.clear()
            self._estimated.clear()
            self._stamps.clear()
            self._heaps.clear()
            self._versions.clear()
            changed = dict.fromkeys(self._log.names())
        for name in changed:
            self._outcomes.pop(name, None)
            self._estimated.pop(name, None)
            self._stamps.pop(name, None)
            self._versions.pop(name, None)
            self._behind[name] = None

    def learn(self, name: str, outcome: Outcome) -> None:
        """Keep the outcome of a node."""
        self._outcomes[name] = outcome
        self._behind.pop(name, None)
        self._estimated.pop(name, None)
        if outcome is CUT_SHORT:
            self._cut_short[name] = None
        elif self._cut_short:
            self._cut_short.pop(name, None)
        if not isinstance(outcome, Solved):
            self._stamps.pop(name, None)
            self.ordinary &= outcome is NOTHING
        else:
            if not outcome.has_picks:
                self._estimated[name] = None
            self._stamp = self._stamps[name] = stamp = self._stamp + 1
            heap = self._heaps.setdefault(outcome.contention, [])
            heappush(heap, (outcome.ranks, outcome.score, name, stamp, outcome))
            if len(heap) > 64 + 4 * len(self._outcomes):
                self._heaps[outcome.contention] = [entry for entry in heap if self._is_current(entry)]
                heapify(self._heaps[outcome.contention])

    def correct(self, name: str, outcome: Outcome) -> None:
        """Replace an estimate; its heap entry is now out of date."""
        self.learn(name, outcome)

    def outcome(self, name: str) -> Outcome | None:
        """Return the kept outcome of a node; None if it changed since."""
        return self.known(self._outcomes.get(name))

    def current(self, name: str) -> Outcome | None:
        """Return the kept outcome of a node also before the ranking has caught up; None if it changed since."""
        self._read_log()
        return self.known(self._outcomes.get(name))

    def version(self, name: str) -> object:
        """Return an object of the node's own, another one after each change."""
        self._read_log()
        return self._versions.setdefault(name, object())

    def _top(self, heap: list[Entry]) -> Entry | None:
        while heap:
            if self._is_current(heap[0]):
                return heap[0]
            heappop(heap)
        return None

    def _is_current(self, entry: Entry) -> bool:
        return self._stamps.get(entry[2]) == entry[3]
