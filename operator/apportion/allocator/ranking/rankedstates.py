"""RankedStates: a ranking by node state, for queries that have the same outcome on all nodes of a state.

In: the log of node states with a new first node. Out: the best node. Each state is searched once, whatever its nodes.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from heapq import heapify, heappop, heappush, heapreplace
from itertools import islice
from typing import TypeAlias

from apportion.allocator.equivalence.nodestate import NodeState, NodeStates
from apportion.allocator.ranking.ranking import Answer, Ranking, sort_key
from apportion.allocator.rules.query import Query
from apportion.allocator.search.outcome import CUT_SHORT, NOTHING, Outcome, Score, Solved
from apportion.allocator.search.scorer import Scorer
from apportion.allocator.search.searchbudget import Paused

Entry: TypeAlias = tuple[tuple[int, ...], Score, str, int, NodeState, Solved]
"""Ranks, score and name of the first node, which are the sort key; a stamp; state and outcome. Flat, because comparing nested
tuples costs twice as much."""

LEAST = 1024
"""Entries below which those out of date are never swept."""

MOST_OBSERVED = 16_384
"""Outcomes kept by what the query observes on a node."""

MOST_POPPED = 64
"""Entries popped one by one before the rest is sorted."""


class RankedStates(Ranking):
    """Outcomes by node state."""

    shared = True

    def __init__(self, scorer: Scorer, query: Query, node_states: NodeStates) -> None:
        super().__init__(scorer, query, MOST_OBSERVED)
        self._node_states = node_states
        self._outcomes: dict[NodeState, Outcome] = {}
        self._cut_short: dict[NodeState, None] = {}
        """States whose search was cut short."""
        self._queued: dict[NodeState, str] = {}
        """The node name of each state's current heap entry; its other entries are out of date."""

    def behind(self) -> int:
        """Return the number of changes not yet caught up with."""
        return self._node_states.log.end - self._cursor

    def advance(self, answer: Answer, most: int = 1) -> bool:
        """Compute so many of the outcomes that `catch_up` would compute; False: it would compute none."""
        found = False
        for state in islice(self._behind(), most):
            self._outcomes[state], found = answer(state.first()), True
        return found

    def advancing(self, answer: Answer) -> Iterator[None]:
        """Compute all of them, as long as no state changes; yields after each, and after each slice of a search that pauses."""
        for state in self._behind():
            while self.known(self._outcomes.get(state)) is None:
                with suppress(Paused):
                    self._outcomes[state] = answer(state.first())
                yield

    def _behind(self) -> Iterator[NodeState]:
        """Yield the states whose outcomes are missing."""
        _, fresh = self._node_states.log.since(self._cursor)
        for state in (*self._cut_short, *(self._node_states.all() if fresh is None else fresh)):
            if state.nodes and self.known(self._outcomes.get(state)) is None:
                yield state

    def catch_up(self, answer: Answer) -> None:
        """Queue states with a new first node; compute missing outcomes where the scorer compares nodes."""
        node_states = self._node_states
        end, fresh = node_states.log.since(self._cursor)
        if fresh is None:
            fresh = node_states.all()
            self._forget_empty()
        if len(self._outcomes) > LEAST + 2 * len(node_states):
            self._forget_empty()
        outcomes, scans = self._outcomes, self.scorer.scans
        for state in [*self._cut_short, *fresh] if self._cut_short else fresh:
            if not state.nodes:
                continue
            outcome = outcomes.get(state)
            if outcome is None or (outcome is CUT_SHORT and self.gives_all_steps):
                if not scans:
                    continue
                outcome = outcomes[state] = answer(state.first())
            if isinstance(outcome, Solved):
                self._queue(state, outcome)
            elif outcome is not NOTHING:
                self._learn(state, outcome)
        if self._cut_short:
            self._cut_short = {state: None for state in self._cut_short if outcomes.get(state) is CUT_SHORT}
        self._cursor = end

    def learn(self, name: str, outcome: Outcome) -> None:
        """Keep the outcome of the node's state."""
        self._learn(self._node_states.of(name), outcome)

    def correct(self, name: str, outcome: Outcome) -> None:
        """Replace the estimate of the node's state by its searched outcome."""
        state = self._node_states.of(name)
        former = self._outcomes.get(state)
        if isinstance(former, Solved):
            # All entries of a state are in the heap of its outcome's contention.
            heap = self._heaps.get(former.contention, [])
            if heap and heap[0][4] is state:
                heappop(heap)
            else:
                heap[:] = [entry for entry in heap if entry[4] is not state]
                heapify(heap)
        self._queued.pop(state, None)
        self._learn(state, outcome)

    def outcome(self, name: str) -> Outcome | None:
        """Return the kept outcome of the node's state."""
        return self.known(self._outcomes.get(self._node_states.of(name)))

    def version(self, name: str) -> object:
        """Return the node's state."""
        return self._node_states.of(name)

    def first(self, allowed: Callable[[str], bool]) -> tuple[str, Solved] | None:
        """Return the best of the nodes that are allowed, if any can serve."""
        firsts = [found for heap in self._heaps.values() if (found := self._first(heap, allowed)) is not None]
        return min(firsts, key=lambda found: sort_key(self.scorer, found[1], found[0]), default=None)

    def _forget_empty(self) -> None:
        self._outcomes = {state: kept for state, kept in self._outcomes.items() if state.nodes}
        self._cut_short = {state: None for state in self._cut_short if state.nodes}

    def _learn(self, state: NodeState, outcome: Outcome) -> None:
        self._outcomes[state] = outcome
        if isinstance(outcome, Solved):
            self._queue(state, outcome)
        elif outcome is not NOTHING:
            self.ordinary = False
        if outcome is CUT_SHORT:
            self._cut_short[state] = None

    def _first(self, heap: list[Entry], allowed: Callable[[str], bool]) -> tuple[str, Solved] | None:
        best: tuple[str, Solved] | None = None
        for entry in _in_order(heap):
            ranks, score, queued, _, state, outcome = entry
            if best is not None and (ranks, score) != (best[1].ranks, best[1].score):
                break
            if not state.nodes:
                continue
            # The name of an entry out of date is earlier than its state's first node, or the state has a newer entry.
            name = state.first()
            if not allowed(name):
                others = [other for other in state.nodes if allowed(other)]
                if not others:
                    continue
                name = min(others)
            if best is None or name < best[0]:
                best = name, outcome
            if name == queued:
                # Later entries have a later name or a worse score.
                break
        return best

    def _top(self, heap: list[Entry]) -> Entry | None:
        queued = self._queued
        while heap:
            entry = heap[0]
            ranks, score, name, _, state, outcome = entry
            if queued.get(state) != name:
                heappop(heap)
            elif not state.nodes:
                heappop(heap)
                del queued[state]
            elif (first := state.first()) != name:
                self._stamp += 1
                queued[state] = first
                heapreplace(heap, (ranks, score, first, self._stamp, state, outcome))
            else:
                return entry
        return None

    def _queue(self, state: NodeState, outcome: Solved) -> None:
        first = state.first()
        former = self._queued.get(state)
        if former is not None and former <= first:
            # `_top` corrects the entry once it leads.
            return
        self._stamp += 1
        heap = self._heaps.setdefault(outcome.contention, [])
        heappush(heap, (outcome.ranks, outcome.score, first, self._stamp, state, outcome))
        self._queued[state] = first
        if len(heap) > LEAST + 4 * len(self._queued) or self._stamp % 4096 == 0:
            self._queued = {kept: name for kept, name in self._queued.items() if kept.nodes}
            for contention, entries in self._heaps.items():
                alive = [entry for entry in entries if self._queued.get(entry[4]) == entry[2]]
                heapify(alive)
                self._heaps[contention] = alive


def _in_order(heap: list[Entry]) -> Iterator[Entry]:
    """Yield the entries best first, without changing the heap."""
    left = list(heap)
    for _ in range(min(len(left), MOST_POPPED)):
        yield heappop(left)
    yield from sorted(left)
