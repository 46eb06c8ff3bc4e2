"""Preemptors: for which of those that wait pods may be evicted, and who is looked at first.

In: demands, groups, policies, quotas, the time that each has waited. Out: the first of them, what is guaranteed before all others; whether pods
may be evicted for one by now.
"""

from collections.abc import Callable, Collection, Iterable
from heapq import nsmallest

from apportion.api.policy import Preemption as Settings
from apportion.api.policy import PreemptionMode
from apportion.scheduling.decider import Decider
from apportion.scheduling.groups import WaitingGroup
from apportion.scheduling.preemption.cooldown import Cooldown
from apportion.scheduling.preemption.guarantees import Guarantees
from apportion.scheduling.preemption.preemptor import Preemptor, of_demand, of_group
from apportion.scheduling.waiting import WaitingDemand, place_of

_RETRIED = 15.0
"""Seconds until victims are searched once more for a demand that found none."""
_ASKED = 16
"""How many are looked at, the first of the queue."""


class Preemptors:
    """Chooses among demands and groups."""

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
        self._repeated: dict[str, float] = {}
        """When they were since, on some nodes, by key."""

    def exist(self) -> bool:
        """Say whether pods may be evicted for anybody."""
        policies = self._snapshot.managed.policies.values()
        return self._guarantees.are_kept() or any(
            policy.preemption.mode is not PreemptionMode.NEVER for policy in policies
        )

    def settings(self, demand: WaitingDemand) -> Settings:
        """Return what the policy of a demand says."""
        return self._snapshot.managed.policy(demand.claims[0]).preemption

    def first(
        self,
        demands: Iterable[WaitingDemand],
        groups: Iterable[WaitingGroup],
        active: Collection[str],
    ) -> list[Preemptor]:
        """Return the first for which pods may be evicted, without those under way (keys)."""
        found = [of_demand(demand) for demand in demands if demand.pods and not demand.members]
        found += [each for group in groups if (each := of_group(group)) is not None]
        self._in_vain = {key: at for key, at in self._in_vain.items() if self._clock() - at < _RETRIED}
        self._repeated = {key: at for key, at in self._repeated.items() if key in self._in_vain}
        managed = self._snapshot.managed
        possible = [
            each
            for each in found
            if each.key not in active
            and self.only(each) != frozenset()
            and all(self._snapshot.allocation(claim) is None for claim in each.demand.claims)
        ]
        covered = self._guarantees.covered(each.demand for each in possible)
        rows = (
            # Who repeats a search before its time takes nobody's turn.
            (each.key in self._in_vain, each.key not in covered, place_of(each.demand, managed), number, each)
            for number, each in enumerate(possible)
            if each.key in covered or self._goes_by_priority(each)
        )
        return [each for *_, each in nsmallest(_ASKED, rows)]

    def only(self, preemptor: Preemptor) -> frozenset[str] | None:
        """Return the nodes on which victims are searched for one now; None: on all.

        One that found none waits, unless something changed where devices are reserved for it. A group waits: its searches take longer.
        """
        key = preemptor.key
        if key not in self._in_vain:
            return None
        at = self._repeated.get(key, self._in_vain[key])
        return (
            self._decider.reservations.nodes_changed_since(key, at)
            if preemptor.group is None
            else frozenset()
        )

    def _goes_by_priority(self, preemptor: Preemptor) -> bool:
        """Say whether the policies of all of its claims let others go for it."""
        modes = (self.settings(member).mode for member in preemptor.members)
        return all(mode is not PreemptionMode.NEVER for mode in modes)

    def found_none(self, preemptor: Preemptor) -> None:
        """Leave one alone for a while: there are no victims for it where they were searched."""
        searched = self._in_vain if preemptor.key not in self._in_vain else self._repeated
        searched[preemptor.key] = self._clock()

    def may_evict(self, preemptor: Preemptor) -> bool:
        """Say whether pods may be evicted for one by now; if not, it can still wait for what ends anyway."""
        demand, after = preemptor.demand, self.settings(preemptor.demand).after.total_seconds()
        return (
            all(self._decider.waits_for(member.key) >= after for member in preemptor.members)
            and not self._cooldown.rests(demand.claims[0].namespace)
            and all(pod.preempts for pod in demand.pods)
        )
