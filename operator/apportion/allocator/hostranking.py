"""HostRanking: the nodes in the order of their sort keys, cpu and memory included, for one query and one request of both.

In: the logs of changed nodes and hosts, and a function that rates a node. Out: the
best node. It is used where many nodes are short of cpu or memory: a claim then looks
at the nodes that changed since the last claim with the same query and request.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Protocol, TypeAlias

from apportion.allocator.facts.host import HostResources
from apportion.allocator.ranking.ranking import SortKey, with_cost
from apportion.allocator.search.outcome import Contention, Outcome, Score, Solved
from apportion.allocator.search.scorer import Scorer
from apportion.allocator.state import State

Candidate: TypeAlias = tuple[SortKey, str, Solved]
"""A node that can serve: sort key, name, outcome."""

Entry: TypeAlias = tuple[tuple[int, ...], Score, str, int, Solved]
"""Ranks, score with the stranded value, node name; a stamp; the outcome."""

Rated: TypeAlias = tuple[Score, Solved]
"""A node's score with the stranded value, without the cost of contention; and its outcome."""


class Rate(Protocol):
    """Rates a node; None where it cannot serve."""

    def __call__(self, name: str, outcome: Outcome | None = None, /) -> Rated | None:
        """`outcome`: of the node, in place of the kept one."""
        ...


Contend: TypeAlias = Callable[[str, Solved], Contention]
"""Returns the contention of an outcome on a node, cpu and memory included."""


class HostRanking:
    """One query, scorer and request of cpu and memory."""

    __slots__ = (
        "_cursors",
        "_followers",
        "_heaps",
        "_requested",
        "_rest",
        "_stamp",
        "_stamps",
        "_version",
        "unfit",
    )

    def __init__(self, requested: HostResources) -> None:
        self._requested = requested
        self._cursors = -1, -1
        self._version: object = None
        self._heaps: dict[Contention, list[Entry]] = {}
        """Nodes that have led, by their contention."""
        self._rest: list[Entry] = []
        """The other nodes: contention only adds to a key, so nobody asks for it before a node leads."""
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
            self._rest.clear()
            self._stamps.clear()
            self._followers.clear()
            self.unfit.clear()
            self._rate_all(state, rate, shared=shared)
            return
        left_of = state.hosts.left.get
        cpu, memory = self._requested
        stamps, unfit = self._stamps, self.unfit
        for name in dict.fromkeys((*devices, *hosts)):
            stamps.pop(name, None)
            unfit.discard(name)
            if name not in known:
                continue
            left = left_of(name)
            if left is not None and (left.cpu < cpu or left.memory < memory):
                unfit.add(name)
                continue
            found = rate(name)
            if found is not None:
                heappush(self._rest, self._entry(found, name))
        self._sweep_if_long(self._rest)

    def _rate_all(self, state: State, rate: Rate, *, shared: bool) -> None:
        left_of = state.hosts.left.get
        cpu, memory = self._requested
        for node_state in state.node_states.all():
            groups: dict[object, list[str]] = {}
            for name in node_state.nodes:
                left = left_of(name)
                if left is not None and (left.cpu < cpu or left.memory < memory):
                    self.unfit.add(name)
                else:
                    groups.setdefault(left if shared else name, []).append(name)
            for names in groups.values():
                found = rate(names[0])
                if found is not None:
                    self._rest.append(self._entry_of_equals(found, names))
        heapify(self._rest)

    def best(self, scorer: Scorer, allowed: Callable[[str], bool], contend: Contend) -> Candidate | None:
        """Return the best of the nodes that are allowed, if any can serve."""
        best: Candidate | None = None
        for contention, heap in self._heaps.items():
            found = self._first(heap, allowed)
            if found is not None:
                best = _better(best, found, contention, scorer)
        rest = self._rest
        passed: list[Entry] = []
        while rest and (best is None or rest[0][:3] < best[0]):
            entry = heappop(rest)
            current = self._stamps.get(entry[2]) == entry[3]
            if current and allowed(entry[2]):
                contention = contend(entry[2], entry[4])
                heap = self._heaps.setdefault(contention, [])
                heappush(heap, entry)
                self._sweep_if_long(heap)
                best = _better(best, entry, contention, scorer)
                continue
            self._follow(rest, entry)
            if current:
                passed.append(entry)
        for entry in passed:
            heappush(rest, entry)
        return best

    def correct(self, name: str, rated: Rated | None) -> None:
        """Replace the estimate of a node by its searched outcome."""
        del self._stamps[name]
        if rated is not None:
            heappush(self._rest, self._entry(rated, name))
            self._sweep_if_long(self._rest)

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

    def _entry(self, rated: Rated, name: str) -> Entry:
        """Return the current entry of a node."""
        score, outcome = rated
        self._stamp = self._stamps[name] = stamp = self._stamp + 1
        return outcome.ranks, score, name, stamp, outcome

    def _entry_of_equals(self, rated: Rated, names: list[str]) -> Entry:
        """Return the current entry of the first of these nodes by name; the others are queued when the earlier ones are gone."""
        names.sort(reverse=True)
        found = self._entry(rated, names.pop())
        if names:
            self._followers[found[3]] = names
            self._stamps.update(dict.fromkeys(names, found[3]))
        return found

    def _sweep_if_long(self, heap: list[Entry]) -> None:
        """Drop the entries that are out of date, where they are most of a heap."""
        stamps, followers = self._stamps, self._followers
        if len(heap) <= 64 + 2 * len(stamps):
            return
        heap[:] = [entry for entry in heap if stamps.get(entry[2]) == entry[3] or entry[3] in followers]
        heapify(heap)


def _better(best: Candidate | None, entry: Entry, contention: Contention, scorer: Scorer) -> Candidate:
    """Return the better of a candidate and an entry with the present cost of its contention."""
    ranks, score, name, _, outcome = entry
    key = with_cost(scorer, (ranks, score, name), contention)
    return (key, name, outcome) if best is None or key < best[0] else best
