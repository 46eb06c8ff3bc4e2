"""Preemptors: for which of the demands that wait pods may be evicted, and who is looked at first.

In: demands, policies, quotas, the time that each has waited. Out: the first of them, what is guaranteed before all others; whether pods
may be evicted for one by now.
"""

from collections.abc import Callable, Collection, Sequence
from heapq import nsmallest

from apportion.api.policy import Preemption as Settings
from apportion.api.policy import PreemptionMode
from apportion.scheduling.decider import Decider
from apportion.scheduling.preemption.cooldown import Cooldown
from apportion.scheduling.preemption.guarantees import Guarantees
from apportion.scheduling.waiting import WaitingDemand, place_of

_RETRIED = 15.0
"""Seconds until victims are searched once more for a demand that found none."""
_ASKED = 16
"""How many demands are looked at, the first of the queue."""


class Preemptors:
    """Chooses among demands."""

    def __init__(
        self, decider: Decider, guarantees: Guarantees, cooldown: Cooldown, clock: Callable[[], float]
    ) -> None:
        self._decider = decider
        self._snapshot = decider.snapshot
        self._guarantees = guarantees
        self._cooldown = cooldown
        self._clock = clock
        self._in_vain: dict[str, float] = {}
        """When victims were last searched for a demand that found none, by key."""

    def exist(self) -> bool:
        """Say whether pods may be evicted for anybody."""
        policies = self._snapshot.managed.policies.values()
        return self._guarantees.are_kept() or any(
            policy.preemption.mode is not PreemptionMode.NEVER for policy in policies
        )

    def settings(self, demand: WaitingDemand) -> Settings:
        """Return what the policy of a demand says."""
        return self._snapshot.managed.policy(demand.claims[0]).preemption

    def first(self, demands: Sequence[WaitingDemand], active: Collection[str]) -> list[WaitingDemand]:
        """Return the first demands for which pods may be evicted, without those under way (keys)."""
        keys = {demand.key for demand in demands} if self._in_vain else set()
        self._in_vain = {key: at for key, at in self._in_vain.items() if key in keys}
        now, managed = self._clock(), self._snapshot.managed
        possible = [
            demand
            for demand in demands
            if demand.key not in active
            and demand.pods
            and not demand.members
            and now - self._in_vain.get(demand.key, -_RETRIED) >= _RETRIED
            and all(self._snapshot.allocation(claim) is None for claim in demand.claims)
        ]
        covered = self._guarantees.covered(possible)
        found = (
            (demand.key not in covered, place_of(demand, managed), demand)
            for demand in possible
            if demand.key in covered or self.settings(demand).mode is not PreemptionMode.NEVER
        )
        return [demand for *_, demand in nsmallest(_ASKED, found)]

    def found_none(self, demand: WaitingDemand) -> None:
        """Leave a demand alone for a while: there are no victims for it."""
        self._in_vain[demand.key] = self._clock()

    def may_evict(self, demand: WaitingDemand) -> bool:
        """Say whether pods may be evicted for a demand by now; if not, it can still wait for what ends anyway."""
        return (
            self._decider.waits_for(demand.key) >= self.settings(demand).after.total_seconds()
            and not self._cooldown.rests(demand.claims[0].namespace)
            and all(pod.preempts for pod in demand.pods)
        )
