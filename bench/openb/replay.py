"""Replay of one seed: pods arrive one by one, a policy chooses the node and devices of each; nothing is ever released.

In: a trace, a seed, a policy, how ties are broken. Out: every arrival with its verdict. There is one heap of nodes per request
and set of lost places; a heap is brought up to date by scoring the nodes that changed since its last use. Nodes in the same
state share their scores.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Literal, TypeAlias

from bench.openb.model import FreeNode, LostPlaces, Placement, PodRequest
from bench.openb.policy import Policy
from bench.openb.trace import Seed, Trace

Ties: TypeAlias = Literal["rank", "random"]
Entry: TypeAlias = tuple[float, int, int, int, Placement]
"""Negative score, rank, node, version of the node, placement."""

MOST_SCORES = 1 << 20
"""Cached scores; the cache is cleared when it is full."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """The verdict on one pod."""

    total_milli: int
    """Requested milli of all devices."""
    request: PodRequest
    placed: bool


@dataclass(slots=True)
class _Heaps:
    """The nodes that fit one request, by the places they would lose."""

    cursor: int = 0
    by_losses: dict[LostPlaces, list[Entry]] = field(default_factory=dict)


class Replay:
    """One run of one seed."""

    def __init__(self, trace: Trace, seed: Seed, policy: Policy, ties: Ties = "rank") -> None:
        self._trace = trace
        self._seed = seed
        self._policy = policy
        self._random = random.Random(seed.number) if ties == "random" else None
        self._free = [node.free for node in trace.nodes]
        self._memory = [node.memory for node in trace.nodes]
        self._versions = [0] * len(trace.nodes)
        self._log = list(range(len(trace.nodes)))
        self._heaps: defaultdict[tuple[PodRequest, int], _Heaps] = defaultdict(_Heaps)
        self._scores: dict[tuple[FreeNode, PodRequest], tuple[Placement, ...]] = {}

    def run(self, tick: Callable[[], None] = lambda: None) -> Iterator[Arrival]:
        """Yield every arrival after it was placed or dropped."""
        for index in self._seed.arrivals:
            pod = self._trace.pods[index]
            found = self._best(pod.request, pod.memory)
            if found is not None:
                node, after = found
                before = self._free[node]
                self._free[node] = after
                self._memory[node] -= pod.memory
                self._versions[node] += 1
                self._log.append(node)
                self._policy.placed(before, after)
            tick()
            yield Arrival(pod.request.total_milli, pod.request, found is not None)

    def _best(self, request: PodRequest, memory: int) -> tuple[int, FreeNode] | None:
        heaps = self._heaps[request, memory]
        self._catch_up(heaps, request, memory)
        prices = self._policy.prices()
        best: tuple[float, int] | None = None
        top: list[Entry] = []
        for losses, heap in heaps.by_losses.items():
            while heap and heap[0][3] != self._versions[heap[0][2]]:
                heappop(heap)
            if not heap:
                continue
            key = heap[0][0] + sum(amount * prices[thing] for thing, amount in losses), heap[0][1]
            if best is None or key < best:
                best, top = key, heap
        if not top:
            return None
        chosen = top[0] if self._random is None else self._any(top, self._random)
        return chosen[2], chosen[4].after

    def _catch_up(self, heaps: _Heaps, request: PodRequest, memory: int) -> None:
        for node in set(self._log[heaps.cursor :]):
            free = self._free[node]
            if self._memory[node] < memory:
                continue
            for placement in self._placements(free, request):
                entry = -placement.score, self._seed.ranks[node], node, self._versions[node], placement
                heappush(heaps.by_losses.setdefault(placement.losses, []), entry)
        heaps.cursor = len(self._log)

    def _placements(self, free: FreeNode, request: PodRequest) -> tuple[Placement, ...]:
        found = self._scores.get((free, request))
        if found is None:
            if len(self._scores) >= MOST_SCORES:
                self._scores.clear()
            found = tuple(self._policy.placements(free, request)) if free.fits(request) else ()
            self._scores[free, request] = found
        return found

    def _any(self, heap: list[Entry], rng: random.Random) -> Entry:
        """Return a random one of the entries with the first one's score; the heap keeps its entries."""
        score = heap[0][0]
        equals: list[Entry] = []
        while heap and heap[0][0] == score:
            entry = heappop(heap)
            if entry[3] == self._versions[entry[2]]:
                equals.append(entry)
        for entry in equals:
            heappush(heap, entry)
        return rng.choice(equals)
