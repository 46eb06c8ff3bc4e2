"""Preemptors: for which of those that wait pods may be evicted, and who is looked at first.

In: demands, groups, policies, quotas, the time that each has waited. Out: the first of them, what is guaranteed before all others; whether pods
may be evicted for one by now.
"""

from collections.abc import Callable, Collection, Generator, Iterable
from dataclasses import dataclass
from heapq import nsmallest

from apportion.api.policy import Preemption as Settings
from apportion.api.policy import PreemptionMode
from apportion.scheduling.backfill.heads import key_of
from apportion.scheduling.decider import Decider
from apportion.scheduling.groups import WaitingGroup, is_current_group
from apportion.scheduling.pace import Pace
from apportion.scheduling.preemption.cooldown import Cooldown
from apportion.scheduling.preemption.guarantees import Guarantees
from apportion.scheduling.preemption.preemptor import Preemptor, of_demand, of_group
from apportion.scheduling.waiting import WaitingDemand, place_of

_RETRIED = 15.0
"""Seconds until victims are searched once more for a demand that found none."""
_OTHERS = 20.0
"""Seconds at least until then for each second that the search took."""
_ASKED = 16
"""How many are looked at, the first of the queue."""


@dataclass(frozen=True, slots=True)
class Begun:
    """When a search began."""

    at: float
    """By the clock."""
    seen: int
    """How far changes of nodes were read then."""


@dataclass(frozen=True, slots=True)
class _InVain:
    """One that found no victims."""

    at: float
    """When they were last searched on all nodes."""
    latest: float
    """When they were on some of them since."""
    resumes: float
    """When they may be searched once more at the earliest."""
    evicts: bool
    """Whether pods could be evicted for it then, and not only waited for."""
    seen: int
    """How far changes of nodes were read then."""


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
        self._in_vain: dict[str, _InVain] = {}
        """By key."""
        self._repeats = 0.0
        """When a search on all nodes may be repeated before its time, by the clock."""

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
        groups: Collection[WaitingGroup],
        active: Collection[Preemptor],
    ) -> Generator[None, None, tuple[list[Preemptor], list[Preemptor]]]:
        """Return the first for which pods may be evicted, without those under way (`active`); and the first that repeat a search before its time.

        Yields where others may run.
        """
        pace = Pace()
        found = [of_demand(demand) for demand in demands if demand.pods and not demand.members]
        found += [
            each for group in (*groups, *self._resting(groups)) if (each := of_group(group)) is not None
        ]
        now = self._clock()
        self._in_vain = {key: each for key, each in self._in_vain.items() if now - each.at < _RETRIED}
        managed = self._snapshot.managed
        possible: list[tuple[Preemptor, float | None]] = []
        for each in found:
            if pace.rests():
                yield
            if (
                not any(each.overlaps(other) for other in active)
                and (only := self.only(each)) != frozenset()
                and all(self._snapshot.allocation(claim) is None for claim in each.demand.claims)
            ):
                possible.append((each, self._in_vain[each.key].latest if only is not None else None))
        covered = yield from self._guarantees.covered([each.demand for each, _ in possible])
        rows = [
            (each.key not in covered, place_of(each.demand, managed), number, each, latest)
            for number, (each, latest) in enumerate(possible)
            if each.key in covered or self._goes_by_priority(each)
        ]
        yield
        due = nsmallest(_ASKED, (row for row in rows if row[-1] is None))
        repeated = nsmallest(_ASKED, (row for row in rows if row[-1] is not None))
        repeated.sort(key=lambda row: row[-1] or 0.0)
        return [each for *_, each, _ in due], [each for *_, each, _ in repeated]

    def _resting(self, groups: Collection[WaitingGroup]) -> list[WaitingGroup]:
        """Return groups for which devices are reserved, and which this pass does not look at, because they are large and were refused."""
        known = {group.pod_group.key for group in groups}
        heads = [each.head for each in self._decider.reservations.reserved]
        return [
            head
            for head in heads
            if isinstance(head, WaitingGroup)
            and head.pod_group.key not in known
            and is_current_group(head, self._snapshot)
        ]

    def only(self, preemptor: Preemptor) -> frozenset[str] | None:
        """Return the nodes on which victims are searched for one now; None: on all, because its time has come.

        One that found none waits, unless something changed: where devices are reserved for it, else anywhere. A single demand then looks at the
        nodes that did; a group at all, because its members may go to different ones. Searches for a group may take long: others get more time than
        they do.
        """
        known, now = self._in_vain.get(preemptor.key), self._clock()
        if known is None or (not known.evicts and self.may_evict(preemptor)):
            return None
        if now < known.resumes:
            return frozenset()
        reservations, key = self._decider.reservations, key_of(preemptor.head)
        if key in reservations:
            return reservations.nodes_changed_since(key, known.latest)
        changed = reservations.nodes.by_others_since(known.seen)
        if changed is None or (changed and preemptor.group is not None):
            return frozenset(self._snapshot.state.names()) if now >= self._repeats else frozenset()
        return changed

    def _goes_by_priority(self, preemptor: Preemptor) -> bool:
        """Say whether the policies of all of its claims let others go for it."""
        modes = (self.settings(member).mode for member in preemptor.members)
        return all(mode is not PreemptionMode.NEVER for mode in modes)

    def begun(self) -> Begun:
        """Note that a search begins: what changes from now on may have come too late for it."""
        return Begun(self._clock(), self._decider.reservations.nodes.others_end)

    def found_none(self, preemptor: Preemptor, begun: Begun, seconds: float, *, evicts: bool) -> None:
        """Leave one alone for a while: there are no victims for it where they were searched.

        `seconds`: how long the search took, without others that ran meanwhile. `evicts`: whether pods could be evicted.
        """
        resumes = self._clock() + seconds * _OTHERS
        known = self._in_vain.get(preemptor.key)
        at = begun.at if known is None or known.evicts != evicts else known.at
        if known is not None:
            self._repeats = resumes
        self._in_vain[preemptor.key] = _InVain(at, begun.at, resumes, evicts, begun.seen)

    def may_evict(self, preemptor: Preemptor) -> bool:
        """Say whether pods may be evicted for one by now; if not, it can still wait for what ends anyway."""
        demand, after = preemptor.demand, self.settings(preemptor.demand).after.total_seconds()
        return (
            all(self._decider.waits_for(member.key) >= after for member in preemptor.members)
            and not self._cooldown.rests(demand.claims[0].namespace)
            and all(pod.preempts for pod in demand.pods)
        )
