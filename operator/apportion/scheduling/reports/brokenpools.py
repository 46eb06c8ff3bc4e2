"""BrokenPools: errors in the pools of drivers, told once each, and again as long as they are there.

In: the errors of the nodes that changed, the clock. Out: what is to be told in this pass. A driver may publish thousands of pools with errors, and
every slice of a sound pool passes through a moment in which others of it are missing.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Final

from apportion.allocator.facts.inventory import Finding
from apportion.cluster.snapshot import Snapshot
from apportion.scheduling.reports.telling import AT_ONCE, PAUSE

PATIENCE: Final = 10.0
"""Seconds after which the missing slices of a pool are no longer on their way: a driver writes them one after the other."""


class BrokenPools:
    """Follows the errors of all pools."""

    def __init__(self, snapshot: Snapshot, clock: Callable[[], float]) -> None:
        self._snapshot = snapshot
        self._clock = clock
        self._of: dict[str, frozenset[Finding]] = {}
        """By node, where there are any."""
        self._nodes: Counter[Finding] = Counter()
        """How many nodes have an error: a pool may serve many."""
        self._known: dict[Finding, int] = {}
        """A number for each error; one that came back has another."""
        self._due: list[tuple[float, int, Finding]] = []
        """When each is told next: a heap. Numbers that are not known any more are over."""
        self._numbers = count()

    def steps(self) -> Iterator[None]:
        """Look at the nodes that changed; yields where others may run."""
        for node, now in self._snapshot.state.examine():
            self._look(node, frozenset(now))
            yield

    def _look(self, node: str, now: frozenset[Finding]) -> None:
        before = self._of.pop(node, frozenset())
        if now:
            self._of[node] = now
        for gone in before - now:
            self._nodes[gone] -= 1
            if not self._nodes[gone]:
                del self._nodes[gone], self._known[gone]
        for new in now - before:
            self._nodes[new] += 1
            if new not in self._known:
                number = self._known[new] = next(self._numbers)
                heappush(self._due, (self._clock() + (0.0 if new.slice else PATIENCE), number, new))

    def due(self) -> Iterator[Finding]:
        """Yield what is to be told now: what came first, first. The rest is due in the next passes."""
        now = self._clock()
        for _ in range(AT_ONCE):
            if not self._due or self._due[0][0] > now:
                return
            _, number, found = heappop(self._due)
            if self._known.get(found) == number:
                heappush(self._due, (now + PAUSE, number, found))
                yield found
