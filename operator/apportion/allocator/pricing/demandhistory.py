"""What was asked for of late: a bounded count per meaning that forgets by halves.

In: meanings of claims, one at a time. Out: a mix that stands still until what is asked for has moved by `MOVED`, so
that what is priced by it is priced anew as a whole, and seldom.
"""

from apportion.allocator.pricing.demandmix import DemandMix, entries
from apportion.allocator.rules.query import Query

MOVED = 0.08
"""Part of the claims that would have to change for the settled mix to be the present one."""

WINDOW = 4096
"""Claims after which every count is halved."""

MOST_MEANINGS = 256
"""Meanings counted; the rarest leave first."""

MOST_ENTRIES = 64
"""Entries of a mix; the commonest are kept."""

CHECK = 16
"""The mix is compared after every sixteenth part of what was counted, so the first claims count almost at once."""

FEW = 4
"""Claims between two looks at least: the very first ones would have everything priced anew one by one."""


class DemandHistory:
    """Changed by `note` only: the same claims in the same order give the same mix."""

    __slots__ = ("_counts", "_due", "_settled", "_total", "latest", "mix")

    def __init__(self) -> None:
        self._counts: dict[Query, int] = {}
        self._total = 0
        self._due = 1
        self._settled: dict[Query, float] = {}
        self.mix: DemandMix = ()
        """What stands."""
        self.latest: DemandMix = ()
        """What was asked for as it was last counted: for what is computed anew all the time."""

    def note(self, query: Query) -> None:
        """Learn that claims of this meaning were asked for."""
        counts = self._counts
        counts[query] = counts.get(query, 0) + 1
        self._total += 1
        self._due -= 1
        if not self._due:
            self._settle()

    def _settle(self) -> None:
        if self._total > WINDOW or len(self._counts) > MOST_MEANINGS:
            self._fade()
        self._due = self._total // CHECK + FEW
        parts = {query: count / self._total for query, count in self._counts.items()}
        known = parts.keys() | self._settled.keys()
        moved = sum(abs(parts.get(one, 0.0) - self._settled.get(one, 0.0)) for one in known) / 2
        rows = [row for query, count in self._counts.items() for row in entries(query, count)]
        rows.sort(key=lambda row: -row.weight)
        self.latest = tuple(rows[:MOST_ENTRIES])
        if moved >= MOVED or not self._settled:
            self._settled = parts
            self.mix = self.latest

    def _fade(self) -> None:
        kept = sorted(self._counts.items(), key=lambda item: -item[1])[: MOST_MEANINGS // 2]
        self._counts = {query: count // 2 for query, count in kept if count > 1}
        self._total = sum(self._counts.values())
        if not self._total:
            # As many meanings as claims: nothing was asked for twice, so nothing is known of what comes.
            self._total = 1
