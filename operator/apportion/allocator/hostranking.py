"""HostRanking: the nodes in the order of their sort keys, cpu and memory included, for one query and one request of both.

In: the logs of changed nodes and hosts, and a function that rates a node. Out: the
best node. It is used where many nodes are short of cpu or memory: a claim then looks
at the nodes that changed since the last claim with the same query and request.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from apportion.allocator.facts.host import HostResources
from apportion.allocator.ranking.ranking import SortKey, sort_key
from apportion.allocator.search.outcome import Contention, Score, Solved
from apportion.allocator.search.scorer import Scorer
from apportion.allocator.state import State

Candidate: TypeAlias = tuple[SortKey, str, Solved]
"""A node that can serve: sort key, name, outcome."""

Entry: TypeAlias = tuple[tuple[int, ...], Score, str, int, Solved]
"""Ranks, score with the stranded value, node name; a stamp; the outcome."""

Rate: TypeAlias = Callable[[str], Candidate | None]
"""Rates a node without the cost of contention; None where it cannot serve."""


class HostRanking:
    """One query, scorer and request of cpu and memory."""

    __slots__ = ("_cursors", "_followers", "_heaps", "_requested", "_stamp", "_stamps", "_version", "unfit")

    def __init__(self, requested: HostResources) -> None:
        self._requested = requested
        self._cursors = -1, -1
        self._version: object = None
        self._heaps: dict[Contention, list[Entry]] = {}
        self._stamps: dict[str, int] = {}
        """The stamp of each node's current entry; its other entries are out of date."""
        self._followers: dict[int, list[str]] = {}
        """By stamp the nodes with equal keys that are not queued yet, the first one last."""
        self._stamp = 0
        self.unfit: set[str] = set()
        """Nodes with less cpu or memory left than requested. They are not ranked: callers seldom allow them."""

    def catch_up(self, state: State, version: object, rate: Rate, *, shared: bool) -> None:
        """Rate the nodes whose devices, cpu or memory changed; all of them under a new version of the demand.

        `shared`: nodes of one state with equal cpu and memory left have equal keys, but for their names.
        """
        devices_end, devices = state.since(self._cursors[0])
        hosts_end, hosts = state.hosts.since(self._cursors[1])
        self._cursors = devices_end, hosts_end
        known = state.names()
        if devices is None or hosts is None or version != self._version:
            self._version = version
            self._heaps.clear()
            self._stamps.clear()
            self._followers.clear()
            self.unfit.clear()
            self._rate_all(state, rate, shared=shared)
            return
        left_of = state.hosts.left.get
        for name in dict.fromkeys((*devices, *hosts)):
            self._stamps.pop(name, None)
            self.unfit.discard(name)
            if name in known:
                self._add([name], left_of(name), rate)

    def _rate_all(self, state: State, rate: Rate, *, shared: bool) -> None:
        left_of = state.hosts.left.get
        for node_state in state.node_states.all():
            names = node_state.nodes
            if not shared or len(names) == 1:
                for name in names:
                    self._add([name], left_of(name), rate)
                continue
            groups: dict[HostResources | None, list[str]] = {}
            for name in names:
                groups.setdefault(left_of(name), []).append(name)
            for left, members in groups.items():
                self._add(members, left, rate)

    def _add(self, names: list[str], left: HostResources | None, rate: Rate) -> None:
        """Rate nodes with equal keys, but for their names."""
        if left is not None and not left.holds(self._requested):
            self.unfit.update(names)
            return
        found = rate(names[0])
        if found is not None:
            (ranks, score, _), _, outcome = found
            self._push(ranks, score, names, outcome)

    def best(self, scorer: Scorer, allowed: Callable[[str], bool]) -> Candidate | None:
        """Return the best of the nodes that are allowed, if any can serve."""
        best: Candidate | None = None
        for heap in self._heaps.values():
            found = self._first(heap, allowed)
            if found is not None:
                ranks, score, name, _, outcome = found
                key = sort_key(scorer, outcome, name)
                if outcome.contention:
                    more = key[1][1] - outcome.score[1]
                    key = ranks, (score[0], score[1] + more, *score[2:]), name
                else:
                    key = ranks, score, name
                if best is None or key < best[0]:
                    best = key, name, outcome
        return best

    def correct(self, name: str, candidate: Candidate | None) -> None:
        """Replace the estimate of a node by its searched outcome."""
        del self._stamps[name]
        if candidate is not None:
            (ranks, score, _), _, outcome = candidate
            self._push(ranks, score, [name], outcome)

    def _first(self, heap: list[Entry], allowed: Callable[[str], bool]) -> Entry | None:
        passed: list[Entry] = []
        found: Entry | None = None
        while heap:
            entry = heap[0]
            current = self._stamps.get(entry[2]) == entry[3]
            if current and allowed(entry[2]):
                found = entry
                break
            heappop(heap)
            self._follow(heap, entry)
            if current:
                passed.append(entry)
        for entry in passed:
            heappush(heap, entry)
        return found

    def _follow(self, heap: list[Entry], entry: Entry) -> None:
        """Queue the next node that was rated together with this one."""
        ranks, score, _, stamp, outcome = entry
        followers = self._followers.get(stamp)
        if followers is not None:
            heappush(heap, (ranks, score, followers.pop(), stamp, outcome))
            if not followers:
                del self._followers[stamp]

    def _push(self, ranks: tuple[int, ...], score: Score, names: list[str], outcome: Solved) -> None:
        self._stamp += 1
        stamp = self._stamp
        first = names[0]
        if len(names) > 1:
            # Later names of equal nodes are queued when the earlier ones are gone.
            names.sort(reverse=True)
            first = names.pop()
            self._followers[stamp] = names
            self._stamps.update(dict.fromkeys(names, stamp))
        self._stamps[first] = stamp
        heap = self._heaps.setdefault(outcome.contention, [])
        heappush(heap, (ranks, score, first, stamp, outcome))
        if len(heap) > 64 + 2 * len(self._stamps):
            alive = [
                entry
                for entry in heap
                if self._stamps.get(entry[2]) == entry[3] or entry[3] in self._followers
            ]
            heapify(alive)
            self._heaps[outcome.contention] = alive
