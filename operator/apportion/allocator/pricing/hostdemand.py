"""What pods of late asked of their nodes beside devices.

In: what claims meant and their pods requested, one demand at a time. Out: counts of the latest ones that stand still
for a while, so that what follows from them is not worked out anew for every claim.
"""

from collections import Counter, deque
from typing import TypeAlias

from apportion.allocator.facts.host import HostResources
from apportion.allocator.rules.query import Query

TypicalHostDemand: TypeAlias = tuple[tuple[Query, HostResources, int], ...]
"""Query, requests, how often."""

LATEST = 512
"""Demands that count; requests may all differ, so they are kept one by one."""

CHECK = 16
"""Counted anew after every sixteenth part of them."""

FEW = 4
"""Demands between two counts at least."""


class HostDemandHistory:
    """Changed by `note` only: the same demands in the same order give the same counts."""

    __slots__ = ("_due", "_latest", "typical")

    def __init__(self) -> None:
        self._latest: deque[tuple[Query, HostResources]] = deque(maxlen=LATEST)
        self._due = 1
        self.typical: TypicalHostDemand = ()
        """What stands; another object once it is counted anew."""

    def note(self, query: Query, asked: HostResources) -> None:
        """Learn what the pods of a demand requested."""
        self._latest.append((query, asked))
        self._due -= 1
        if not self._due:
            self._due = len(self._latest) // CHECK + FEW
            self.typical = tuple((*key, count) for key, count in Counter(self._latest).items())
