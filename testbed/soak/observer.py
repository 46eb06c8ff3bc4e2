"""What a soak looks at each second: invariants, the memory of every process, which pods were served.

In: an installation and its checker. Out: violations, growths, the number of pods that ran.
"""

import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import psutil

from testbed.checker import Checker
from testbed.installation import Installation
from testbed.soak.fulfilment import Fulfilment
from testbed.soak.memory import Growth, growth

LOOK_SECONDS: Final = 1.0
_FORGET_SECONDS: Final = 60.0
"""How long a container's record is kept after its end: rules compare it with those that ran beside it."""


class Observer:
    """`look` is called each second."""

    def __init__(self, installation: Installation, checker: Checker) -> None:
        self.idle = 0.0
        """The longest time in seconds without an allocation, also while all waited for something else."""
        self._installation = installation
        self._checker = checker
        self._allocated = 0, time.monotonic()
        """How often, and when this was seen first."""
        self._samples: dict[tuple[str, int], list[tuple[float, int]]] = defaultdict(list)
        self._forgotten = 0
        self._violations: set[str] = set()
        self._fulfilment = Fulfilment()
        self._read: set[tuple[str, str]] = set()
        """What was looked at, by UID: versions of slices, allocations of claims."""

    @property
    def violations(self) -> list[str]:
        """Every violation so far, each once."""
        return sorted(self._violations | set(self._checker.violations))

    @property
    def served(self) -> int:
        """How many pods have run."""
        records = (
            row for kubelet in self._installation.kubelets.values() for row in kubelet.records.values()
        )
        return self._forgotten + sum(record.running is not None for record in records)

    def growths(self) -> list[Growth]:
        """Return how the memory of each program grew, in its longest run."""
        found = [growth(name, rows) for (name, _), rows in self._samples.items()]
        longest: dict[str, Growth] = {}
        for each in sorted((each for each in found if each is not None), key=lambda each: each.seconds):
            longest[each.name] = each
        return [longest[name] for name in sorted(longest)]

    def leaks(self) -> list[Growth]:
        """Return every run of a program whose memory grew by more than it may."""
        found = [growth(name, rows) for (name, _), rows in self._samples.items()]
        return [each for each in found if each is not None and each.leaks]

    def look(self) -> None:
        """Look once. Raises what a watch of the checker failed with."""
        self._checker.alive()
        if self._checker.allocations != self._allocated[0]:
            self._allocated = self._checker.allocations, time.monotonic()
        self.idle = max(self.idle, time.monotonic() - self._allocated[1])
        self._violations.update(self._checker.used_by_two_containers())
        self._violations.update(self._unfulfilled())
        self._sample()
        self._forget()

    def _unfulfilled(self) -> Iterator[str]:
        """Yield what claims have that they do not ask for; each allocation is looked at once."""
        for uid, piece in self._checker.slices.items():
            if self._is_new(uid, piece["metadata"]["resourceVersion"]):
                self._fulfilment.learn(piece)
        for uid, claim in self._checker.claims.items():
            allocation = claim.get("status", {}).get("allocation")
            if allocation and self._is_new(uid, repr(allocation)):
                yield from self._fulfilment.unfulfilled(claim)

    def _is_new(self, uid: str, version: str) -> bool:
        new = (uid, version) not in self._read
        self._read.add((uid, version))
        return new

    def _sample(self) -> None:
        now = time.monotonic()
        for program in (*self._installation.operators, *self._installation.agents.values()):
            if program.pid is None:
                continue
            try:
                size = psutil.Process(program.pid).memory_info().rss
            except psutil.NoSuchProcess:
                continue
            self._samples[program.name, program.pid].append((now, size))

    def _forget(self) -> None:
        before = time.time() - _FORGET_SECONDS
        for kubelet in self._installation.kubelets.values():
            for uid, record in list(kubelet.records.items()):
                ended = record.stopped is not None and record.stopped < before
                if ended and uid not in self._checker.pods:
                    del kubelet.records[uid]
                    self._forgotten += record.running is not None
