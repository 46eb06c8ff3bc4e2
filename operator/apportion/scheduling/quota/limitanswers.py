"""LimitAnswers: what the limits of a quota leave of a demand, whatever devices it gets.

In: demands, the use of their quota. Out: answers, which are kept as long as the use is the same.
"""

from collections.abc import Collection, Generator, Iterable, Iterator
from dataclasses import dataclass, replace

from apportion.allocator.finished import finished
from apportion.dra.claim import RequestSlot
from apportion.quota.bounds import LONGEST_KEPT, length_of
from apportion.quota.least import possible
from apportion.quota.usage import Usage
from apportion.quota.use import Excess, QuotaUse
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.pace import Pace

MOST_KEPT = 4096
"""Answers that are kept."""


@dataclass(frozen=True, slots=True)
class LimitAnswer:
    """What the limits leave of claims, as long as the use is the same."""

    use: QuotaUse
    version: int
    kept: object
    """What the key stands for, so that no other object gets its identity."""
    excess: Excess | None
    """The limit that they exceed whatever devices they get."""
    left: tuple[tuple[RequestSlot, ...], ...] | None = None
    """What of the requests of each claim is left; None: every alternative."""

    def holds(self, use: QuotaUse) -> bool:
        """Say whether it is true still."""
        return self.use is use and self.version == use.version


class LimitAnswers:
    """Answers about demands."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], LimitAnswer] = {}
        """By the identities of use and requests, and whether devices give shares."""
        self._length = 0
        """Characters of the selectors of these requests."""
        self._begun: frozenset[tuple[QuotaUse, bool]] = frozenset()
        """The uses of quotas for which it was found out what waits takes at least; with whether devices give shares."""

    def begin(
        self,
        usage: Usage,
        waiting: Collection[WaitingDemand],
        came: Collection[WaitingDemand],
        *,
        shares: bool,
    ) -> Iterator[None]:
        """Find out what those that came take at least, and all that wait where quotas changed, before anybody asks; yields where others may run."""
        uses = frozenset((use, shares) for use in usage)
        changed, self._begun, pace = uses - self._begun, uses, Pace()
        for demand in tuple(waiting) if changed else came:
            if pace.rests():
                yield
            use = usage.of(demand.claims[0].namespace)
            if use is not None:
                yield from use.bounds.steps((*demand.claims, *demand.asked), shares=shares)

    def steps(
        self, demand: WaitingDemand, use: QuotaUse, *, shares: bool
    ) -> Generator[None, None, LimitAnswer]:
        """Find out what the limits leave; yields where others may run. `shares`: some devices give shares."""
        key = id(use), shares, *[id(claim.slots) for claim in demand.asked]
        known = self._known.get(key)
        if known is None or not known.holds(use):
            version = use.version
            found = yield from possible(demand.asked, use, shares=shares)
            kept = [claim.slots for claim in demand.asked]
            excess = found if isinstance(found, Excess) else None
            left = None
            if not isinstance(found, Excess) and found is not demand.asked:
                yield from use.bounds.steps(found, shares=shares)  # it is asked what they take at least, too
                left = tuple(claim.slots for claim in found)
            known = LimitAnswer(use, version, kept, excess, left)
            length = sum(map(length_of, kept))
            if len(self._known) >= MOST_KEPT or self._length + length > LONGEST_KEPT:
                self._known.clear()
                self._length = 0
            self._length += length
            self._known[key] = known
        return known

    def of(self, demand: WaitingDemand, use: QuotaUse, *, shares: bool) -> LimitAnswer:
        """Return what the limits leave, at once."""
        return finished(self.steps(demand, use, shares=shares))

    def left(self, demand: WaitingDemand, use: QuotaUse, *, shares: bool) -> WaitingDemand:
        """Return the demand without the alternatives that are beyond a limit; as it is, if all of them are, or none is."""
        left = self.of(demand, use, shares=shares).left
        return demand if left is None else asking(demand, left)


def asking(demand: WaitingDemand, requests: Iterable[tuple[RequestSlot, ...]]) -> WaitingDemand:
    """Return a demand as it asks for these requests, those of one claim after the other."""
    rows = zip(demand.asked, requests, strict=True)
    asked = tuple(claim if slots is claim.slots else replace(claim, slots=slots) for claim, slots in rows)
    return replace(demand, asked=asked)
