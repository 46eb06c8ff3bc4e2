"""Attempt: by which rule pods may go for a demand in one search.

In: a demand, the rules of its policy and of quotas. Out: one value; a search makes several attempts, the best first.
"""

from dataclasses import dataclass, field

from apportion.scheduling.preemption.eligibility import Eligibility, Holder, LowerPriority
from apportion.scheduling.preemption.guarantees import ReclaimRule
from apportion.scheduling.waiting import WaitingDemand


class _Nobody:
    """The rule by which nobody is evicted."""

    def may_go(self, _holder: Holder, _demand: WaitingDemand) -> bool:
        return False


NOBODY, LOWER_PRIORITY = _Nobody(), LowerPriority()


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to have pods evicted for a demand."""

    demand: WaitingDemand
    by_priority: Eligibility
    reclaim: ReclaimRule = field(default_factory=ReclaimRule)

    @property
    def takes_back(self) -> bool:
        """Whether pods go for what is guaranteed, too."""
        return self.demand is self.reclaim.within
