"""LimitAnswers: what the limits of a quota leave of a demand, whatever devices it gets.

In: demands, the use of their quota. Out: answers, which are kept as long as the use is the same.
"""

from dataclasses import dataclass, replace

from apportion.dra.claim import Claim
from apportion.quota.least import possible
from apportion.quota.use import Excess, QuotaUse
from apportion.scheduling.waiting import WaitingDemand

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
    whole: bool = True
    """Whether every alternative is left."""

    def holds(self, use: QuotaUse) -> bool:
        """Say whether it is true still."""
        return self.use is use and self.version == use.version


class LimitAnswers:
    """Answers about demands."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], LimitAnswer] = {}
        """By the identities of use and requests, and whether devices give shares."""

    def of(self, demand: WaitingDemand, use: QuotaUse, *, shares: bool) -> LimitAnswer:
        """Return what the limits leave; `shares`: some devices give shares."""
        key = id(use), shares, *[id(claim.slots) for claim in demand.asked]
        known = self._known.get(key)
        if known is None or not known.holds(use):
            found = possible(demand.asked, use, shares=shares)
            kept = [claim.slots for claim in demand.asked]
            excess = found if isinstance(found, Excess) else None
            known = LimitAnswer(use, use.version, kept, excess, whole=found is demand.asked)
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            self._known[key] = known
        return known

    def left(self, demand: WaitingDemand, use: QuotaUse, *, shares: bool) -> WaitingDemand:
        """Return the demand without the alternatives that are beyond a limit; as it is, if all of them are, or none is."""
        answer = self.of(demand, use, shares=shares)
        if answer.whole or answer.excess is not None:
            return demand
        left: tuple[Claim, ...] | Excess = possible(demand.asked, use, shares=shares)
        return demand if isinstance(left, Excess) else replace(demand, asked=left)
