"""DemandHistory: the queries of recent claims, and the cpu and memory that their pods request.

In: queries and pod requests, one demand at a time. Out: a demand mix that changes only after the demand has moved by
`MOVED`, so that prices are computed seldom; and counts of pod requests, renewed at the pace of `CHECK`.
"""

from collections import Counter, deque
from typing import TypeAlias

from apportion.allocator.facts.host import HostResources
from apportion.allocator.pricing.demandmix import DemandMix, entries
from apportion.allocator.rules.query import Query

MOVED = 0.08
"""Part of the claims in which the demand must differ from the settled mix for a new one."""

WINDOW = 4096
"""Claims after which every count is halved."""

MOST_QUERIES = 256
"""Queries counted; beyond it the rarer half is forgotten."""

MOST_ENTRIES = 64
"""Entries of a mix; the most frequent are kept."""

CHECK = 16
"""The mix and the counts are renewed after every sixteenth part of what was counted, so the first claims count early."""

FEW = 4
"""Demands between two renewals at least: otherwise each of the first claims would renew all prices."""

LATEST = 4096
"""Demands whose pod requests count, as many as claims count fully; requests may all differ, so they are kept one by one."""

TypicalHostDemand: TypeAlias = tuple[tuple[Query, HostResources, int], ...]
"""Query, cpu and memory of the demand's pods, how often."""


class DemandHistory:
    """A bounded count per query; older claims count less. Deterministic: the same claims in the same order give the same mix."""

    __slots__ = ("_counts", "_due", "_settled", "_settled_of", "_total", "latest", "mix")

    def __init__(self) -> None:
        self._counts: dict[Query, int] = {}
        self._total = 0
        self._due = 1
        self._settled: dict[Query, float] = {}
        self._settled_of = 0
        """Claims that the settled mix was counted from."""
        self.mix: DemandMix = ()
        """The settled mix."""
        self.latest: DemandMix = ()
        """The mix as last counted, for costs that are computed for every claim anyway."""

    def note(self, query: Query) -> None:
        """Count a claim with this query."""
        counts = self._counts
        counts[query] = counts.get(query, 0) + 1
        self._total += 1
        self._due -= 1
        if not self._due:
            self._settle()

    def _settle(self) -> None:
        if self._total > WINDOW or len(self._counts) > MOST_QUERIES:
            self._fade()
        self._due = self._total // CHECK + FEW
        shares = {query: count / self._total for query, count in self._counts.items()}
        known = shares.keys() | self._settled.keys()
        moved = sum(abs(shares.get(query, 0.0) - self._settled.get(query, 0.0)) for query in known) / 2
        rows = [row for query, count in self._counts.items() for row in entries(query, count)]
        rows.sort(key=lambda row: -row.weight)
        self.latest = tuple(rows[:MOST_ENTRIES])
        if moved >= MOVED or not self._settled or self._is_coarse():
            self._settled_of = self._total
            self._settled = shares
            self.mix = self.latest

    def _is_coarse(self) -> bool:
        """Say whether the mix is too coarse for shares: their prices jump with small differences, and rare claims lose their places."""
        return any(query not in self._settled and _takes_several_shares(query) for query in self._counts) or (
            self._total >= 2 * self._settled_of
            and any(entry.alternative is not None and entry.alternative.capacity for entry in self.latest)
        )

    def _fade(self) -> None:
        kept = sorted(self._counts.items(), key=lambda item: -item[1])[: MOST_QUERIES // 2]
        self._counts = {query: count // 2 for query, count in kept if count > 1}
        self._total = sum(self._counts.values())
        if not self._total:
            # Every claim had a query of its own, so the history predicts nothing.
            self._total = 1


def _takes_several_shares(query: Query) -> bool:
    """Say whether a claim requests capacity of several devices: however rare, it loses its places unless the mix has it."""
    return any(
        entry.count > 1 and entry.alternative.capacity for entry in entries(query, 1) if entry.alternative
    )


class HostDemandHistory:
    """The latest pod requests. Deterministic: the same demands in the same order give the same counts."""

    __slots__ = ("_due", "_latest", "typical")

    def __init__(self) -> None:
        self._latest: deque[tuple[Query, HostResources]] = deque(maxlen=LATEST)
        self._due = 1
        self.typical: TypicalHostDemand = ()
        """The counts; another object after each renewal."""

    def note(self, query: Query, asked: HostResources) -> None:
        """Count what the pods of a demand requested."""
        self._latest.append((query, asked))
        self._due -= 1
        if not self._due:
            self._due = len(self._latest) // CHECK + FEW
            self.typical = tuple((*key, count) for key, count in Counter(self._latest).items())
