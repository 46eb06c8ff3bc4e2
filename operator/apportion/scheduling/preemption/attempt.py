"""Attempt: by which rule pods may go for a demand in one search.

In: a demand, the rules of its policy and of quotas. Out: one value; a search makes several attempts, the best first.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from apportion.api.policy import PreemptionMode
from apportion.cluster.managedclasses import ManagedClasses
from apportion.dra.claim import Claim
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.preemption.eligibility import Eligibility, Holder, LowerPriority
from apportion.scheduling.preemption.guarantees import ReclaimRule


class _Nobody:
    """The rule by which nobody is evicted."""

    def may_go(self, _holder: Holder, _demand: WaitingDemand) -> bool:
        return False


NOBODY, LOWER_PRIORITY = _Nobody(), LowerPriority()


def by_priority(demand: WaitingDemand, managed: ManagedClasses) -> Eligibility:
    """Return the rule by which pods go for a demand by priority: nobody does, unless the policies of all of its claims say so."""
    modes = (managed.policy(claim).preemption.mode for claim in demand.claims)
    return NOBODY if PreemptionMode.NEVER in modes else LOWER_PRIORITY


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to have pods evicted for a demand."""

    demand: WaitingDemand
    by_priority: Eligibility
    reclaim: ReclaimRule = field(default_factory=ReclaimRule)
    narrowed: int = 0
    """How often it was made to ask for less."""

    @property
    def takes_back(self) -> bool:
        """Whether pods go for what is guaranteed, too."""
        return self.demand is self.reclaim.within

    def asking(self, claims: Iterable[Claim]) -> "Attempt":
        """Return the same attempt with these claims, which ask for less."""
        demand = replace(self.demand, asked=tuple(claims))
        reclaim = replace(self.reclaim, within=demand) if self.takes_back else self.reclaim
        return Attempt(demand, self.by_priority, reclaim, self.narrowed + 1)
