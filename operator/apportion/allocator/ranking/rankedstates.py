"""The standings of one shape in order, best first; nodes that stand alike are looked at once.

In: a state's log of standings with a new first node. Out: the best standing. Alike nodes cost nothing; a refused
claim costs an empty heap, not a search of all nodes.
"""

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, TypeAlias

from apportion.allocator.equivalence.nodestate import NodeState, NodeStates
from apportion.allocator.ranking.alike import Alike
from apportion.allocator.ranking.sortkey import sort_key
from apportion.allocator.rules.query import NamedQuery
from apportion.allocator.search.outcome import Outcome, Solved
from apportion.allocator.search.scorer import Contention, Score, Scorer

Entry: TypeAlias = tuple[tuple[int, ...], Score, str, int, NodeState, Solved]
"""Ranks, score, name of the first node: its place, flat, since every level of tuples is compared twice. Then a stamp."""


LEAST = 1024
"""Entries that are kept in any case before what is out of date is swept."""


MOST_ALIKE = 16_384
"""Sights of nodes whose answers are kept."""

MOST_POPPED = 64
"""Entries looked at one by one before all are brought in order."""


class RankedStates:
    """Outcomes of one shape under one strategy."""

    def __init__(self, scorer: Scorer, asked: NamedQuery | None = None) -> None:
        """`asked`: what claims ask here, for who looks while none waits."""
        self.scorer = scorer
        self.asked = asked
        self._outcomes: dict[NodeState, Outcome] = {}
        self._heaps: dict[Contention, list[Entry]] = {}
        """By what a choice takes from others, since the cost of that changes all the time."""
        self.alike = Alike(MOST_ALIKE)
        self._queued: dict[NodeState, str] = {}
        """The name under which a standing is in the heap; other entries are out of date."""
        self._stamp = 0
        self._cursor = -1
        self.special: dict[object, Outcome] = {}
        """What standings answer where some of their devices are preferred or excluded; kept by who asks."""
        self.diagnoses: dict[object, Any] = {}
        """What standings lack, for explanations."""
        self.refusal: object = None
        """The explanation last given."""
        self.refused: object = None
        """The state's moment when it was given, and who asked."""

    @property
    def is_new(self) -> bool:
        """Whether no standing was looked at yet."""
        return self._cursor < 0

    def behind(self, standings: NodeStates) -> int:
        """Return how many changes are to be looked at."""
        return standings.end - self._cursor

    def catch_up(self, standings: NodeStates) -> Iterator[NodeState]:
        """Yield the standings that have nodes and no answer yet; queue those that have a new first node."""
        end, fresh = standings.since(self._cursor)
        if fresh is None:
            fresh = standings.all()
            self._outcomes = {standing: kept for standing, kept in self._outcomes.items() if standing.nodes}
        if len(self._outcomes) > LEAST + 2 * len(standings):
            self._outcomes = {standing: kept for standing, kept in self._outcomes.items() if standing.nodes}
        for standing in fresh:
            if standing.nodes:
                outcome = self._outcomes.get(standing)
                if outcome is None:
                    yield standing
                elif isinstance(outcome, Solved):
                    self._queue(standing, outcome)
        self._cursor = end

    def learn(self, standing: NodeState, outcome: Outcome) -> None:
        """Remember what the nodes of a standing answer."""
        self._outcomes[standing] = outcome
        if isinstance(outcome, Solved):
            self._queue(standing, outcome)

    def correct(self, standing: NodeState, outcome: Outcome) -> None:
        """Remember what a standing answered when it was asked for more."""
        for harm, heap in self._heaps.items():
            if heap and heap[0][4] is standing:
                heappop(heap)
            elif any(entry[4] is standing for entry in heap):
                self._heaps[harm] = [entry for entry in heap if entry[4] is not standing]
                heapify(self._heaps[harm])
        self._queued.pop(standing, None)
        self.learn(standing, outcome)

    def outcome(self, standing: NodeState) -> Outcome | None:
        """Return what is known of a standing."""
        return self._outcomes.get(standing)

    def best(self) -> tuple[NodeState, Solved] | None:
        """Return the best standing, if any can serve."""
        tops = [top for heap in self._heaps.values() if (top := self._top(heap)) is not None]
        if not tops:
            return None
        best = tops[0]
        if len(tops) > 1:
            best = min(tops, key=lambda top: sort_key(self.scorer, top[5], top[2]))
        return best[4], best[5]

    def first(self, allowed: Callable[[str], bool]) -> tuple[str, NodeState, Solved] | None:
        """Return the best of the nodes that are allowed, if any can serve."""
        firsts = [found for heap in self._heaps.values() if (found := self._first(heap, allowed)) is not None]
        return min(firsts, key=lambda found: sort_key(self.scorer, found[2], found[0]), default=None)

    def _first(
        self, heap: list[Entry], allowed: Callable[[str], bool]
    ) -> tuple[str, NodeState, Solved] | None:
        best: tuple[str, NodeState, Solved] | None = None
        for entry in _in_order(heap):
            ranks, score, queued, _, standing, outcome = entry
            if best is not None and (ranks, score) != (best[2].ranks, best[2].score):
                break
            if not standing.nodes:
                continue
            # An entry that is out of date has an earlier name than the standing, or another entry.
            name = standing.first()
            if not allowed(name):
                others = [other for other in standing.nodes if allowed(other)]
                if not others:
                    continue
                name = min(others)
            if best is None or name < best[0]:
                best = name, standing, outcome
            if name == queued:
                # Whoever comes behind it has a later name, or is worse.
                break
        return best

    def _top(self, heap: list[Entry]) -> Entry | None:
        queued = self._queued
        while heap:
            entry = heap[0]
            ranks, score, name, _, standing, outcome = entry
            if queued.get(standing) != name:
                heappop(heap)
            elif not standing.nodes:
                heappop(heap)
                del queued[standing]
            elif (first := standing.first()) != name:
                self._stamp += 1
                queued[standing] = first
                heapreplace(heap, (ranks, score, first, self._stamp, standing, outcome))
            else:
                return entry
        return None

    def _queue(self, standing: NodeState, outcome: Solved) -> None:
        first = standing.first()
        former = self._queued.get(standing)
        if former is not None and former <= first:
            # The entry moves to where it belongs when it comes to the top.
            return
        self._stamp += 1
        heap = self._heaps.setdefault(outcome.harm, [])
        heappush(heap, (outcome.ranks, outcome.score, first, self._stamp, standing, outcome))
        self._queued[standing] = first
        if len(heap) > LEAST + 4 * len(self._queued) or self._stamp % 4096 == 0:
            self._queued = {kept: name for kept, name in self._queued.items() if kept.nodes}
            for harm, entries in self._heaps.items():
                alive = [entry for entry in entries if self._queued.get(entry[4]) == entry[2]]
                heapify(alive)
                self._heaps[harm] = alive


def _in_order(heap: list[Entry]) -> Iterator[Entry]:
    """Yield the entries, the best first; the heap stays as it is."""
    left = list(heap)
    for _ in range(min(len(left), MOST_POPPED)):
        yield heappop(left)
    yield from sorted(left)
