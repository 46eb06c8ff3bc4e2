"""Let the pods of a seed arrive one by one and place each where a policy says.

Per request and set of losses there is one heap of nodes; only nodes that were touched since it was last used are
scored again. Nodes in the same state share their scores.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Literal, TypeAlias

from bench.openb.policy import Policy
from bench.openb.trace import Seed, Trace
from bench.openb.worth.free import Ask, Free
from bench.openb.worth.way import Losses, Way

Ties: TypeAlias = Literal["rank", "random"]
Entry: TypeAlias = tuple[float, int, int, int, Way]
"""Negative score, rank, node, version of the node, way."""

MOST_SCORES = 1 << 20
"""Scores kept before all are forgotten."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """What became of one pod."""

    size: int
    """Milli asked for."""
    ask: Ask
    placed: bool


@dataclass(slots=True)
class _Heaps:
    """The nodes that can serve one request, by what they would lose."""

    cursor: int = 0
    by_losses: dict[Losses, list[Entry]] = field(default_factory=dict)


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
        self._heaps: defaultdict[tuple[Ask, int], _Heaps] = defaultdict(_Heaps)
        self._scores: dict[tuple[Free, Ask], tuple[Way, ...]] = {}

    def run(self, tick: Callable[[], None] = lambda: None) -> Iterator[Arrival]:
        """Yield every arrival after it was placed or dropped."""
        for index in self._seed.arrivals:
            pod = self._trace.pods[index]
            found = self._best(pod.ask, pod.memory)
            if found is not None:
                node, after = found
                before = self._free[node]
                self._free[node] = after
                self._memory[node] -= pod.memory
                self._versions[node] += 1
                self._log.append(node)
                self._policy.placed(before, after)
            tick()
            yield Arrival(pod.ask.size, pod.ask, found is not None)

    def _best(self, ask: Ask, memory: int) -> tuple[int, Free] | None:
        heaps = self._heaps[ask, memory]
        self._catch_up(heaps, ask, memory)
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

    def _catch_up(self, heaps: _Heaps, ask: Ask, memory: int) -> None:
        for node in set(self._log[heaps.cursor :]):
            free = self._free[node]
            if self._memory[node] < memory:
                continue
            for way in self._ways(free, ask):
                entry = -way.score, self._seed.ranks[node], node, self._versions[node], way
                heappush(heaps.by_losses.setdefault(way.losses, []), entry)
        heaps.cursor = len(self._log)

    def _ways(self, free: Free, ask: Ask) -> tuple[Way, ...]:
        found = self._scores.get((free, ask))
        if found is None:
            if len(self._scores) >= MOST_SCORES:
                self._scores.clear()
            found = tuple(self._policy.ways(free, ask)) if free.holds(ask) else ()
            self._scores[free, ask] = found
        return found

    def _any(self, heap: list[Entry], rng: random.Random) -> Entry:
        """Return any of the entries that are as good as the first, and leave the heap as it was."""
        score = heap[0][0]
        equals: list[Entry] = []
        while heap and heap[0][0] == score:
            entry = heappop(heap)
            if entry[3] == self._versions[entry[2]]:
                equals.append(entry)
        for entry in equals:
            heappush(heap, entry)
        return rng.choice(equals)
