"""GroupDecider: the demands of pod groups, all or nothing, in turns.

In: a group's waiting demands, the capacity of nodes. Out: decisions for enough of its pods, each on a node of its own; or
none, and Events that say what is missing. A decision that takes longer than a turn goes on at the group's next turn. Allocations of a
group that cannot be completed are cleared.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator

from apportion.allocator.gang.members import DeviceShortage, DomainShortage, GangRefused
from apportion.api.contract import GATE
from apportion.dra.claim import Claim
from apportion.errors import BrokenInput
from apportion.scheduling.backfill.heads import key_of, members_of
from apportion.scheduling.deciding.decider import Decider
from apportion.scheduling.deciding.groupdecision import GroupDecision
from apportion.scheduling.deciding.grouppauses import GroupPauses
from apportion.scheduling.demands.consumers import is_taken_up
from apportion.scheduling.demands.groups import Queued, WaitingGroup, demands_of, is_current_group
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.events import events, groupevents
from apportion.scheduling.quota.overlimit import OverLimit
from apportion.scheduling.room.hostcapacity import HostCapacity

TURN = 0.02
"""Seconds after which others are decided before the decision about a group goes on."""
PATIENCE = 5.0
"""Seconds that a group may be incomplete before its users get an Event: controllers make pods one by one."""


class GroupDecider:
    """Decides pod groups."""

    def __init__(self, decider: Decider, clock: Callable[[], float]) -> None:
        self._decider = decider
        self._clock = clock
        self._since: dict[str, float] = {}
        """When a group was first seen incomplete."""
        self._pauses = GroupPauses(decider.reservations, clock)
        self.resumes = math.inf
        """When the first of the groups that this pass skips is looked at though nothing happens, by the clock."""
        self._begun: dict[str, GroupDecision] = {}
        """Decisions that have begun, by group."""
        self._counted: tuple[str, ...] = ()
        """The groups under way of which it was known what they leave to others when `leaves_more` was asked last."""
        self.granted = 0
        """Claims granted in the latest turn of a group."""
        self.spent = 0.0
        """Seconds that the turns of groups took in this pass."""

    def start(self) -> Callable[[str], bool]:
        """Start a pass; returns which groups (`namespace/name`) it does not look at: they are large and were not served."""
        self._pauses.start(self._begun)
        return self._pauses.skips

    def begin(self, groups: Iterable[WaitingGroup]) -> None:
        """Start a pass over these groups; all others but those that are skipped are forgotten."""
        self.spent = 0.0
        self.resumes, skips = self._pauses.resumes, self._pauses.skips
        kept = {group.pod_group.key for group in groups}
        self._pauses.keep(kept)
        self._since = {key: at for key, at in self._since.items() if key in kept or skips(key)}
        for key in [each for each in self._begun if each not in kept and not skips(each)]:
            self._release(key)

    def begin_reservations(
        self, gone: Collection[str], came: Collection[WaitingDemand], groups: Iterable[WaitingGroup]
    ) -> Iterator[None]:
        """Start a pass of the reservations (as their `begin`); none stays behind which others of a cohort would wait. Yields where others may run."""
        reservations, quotas = self._decider.reservations, self._decider.quotas
        yield from reservations.nodes.steps()
        yield from reservations.begin(gone, came, groups, self._pauses.skips)
        ahead: list[WaitingDemand] = []
        for each in tuple(reservations.reserved):
            if quotas.stands_back(members_of(each.head), ahead):
                reservations.drop(key_of(each.head))
            else:
                ahead.extend(members_of(each.head))

    def advance(self, group: WaitingGroup, capacity: HostCapacity) -> Iterator[None]:
        """Begin to decide about a group, or go on with it, as long as its turn lasts; yields where others may run."""
        began = self._clock()
        try:
            yield from self._advance(group, capacity)
        finally:
            self.spent += self._clock() - began

    def _advance(self, group: WaitingGroup, capacity: HostCapacity) -> Iterator[None]:
        self.granted = 0
        key = group.pod_group.key
        decision = self._begun.get(key)
        if decision is None:
            pods = [pod for demand in group.demands for pod in demand.pods]
            yield from self._decider.candidates.ahead(pods)
            if not is_current_group(group, self._decider.snapshot) or not self._may_begin(group):
                return
            decision = self._begun[key] = GroupDecision(group, self._decider, capacity)
        began, before = self._clock(), decision.granted
        try:
            for _ in decision:
                self.granted = decision.granted - before
                if self._clock() - began >= TURN:
                    decision.suspended = True
                    decision.seconds += self._clock() - began
                    return
                yield
        except BaseException:
            self._release(key)
            raise
        self.granted = decision.granted - before
        decision.seconds += self._clock() - began
        self._end(decision, capacity)

    @property
    def being_decided(self) -> frozenset[str]:
        """The groups being decided, by their keys in the queue."""
        return frozenset(decision.group.key for decision in self._begun.values())

    def leaves_more(self) -> bool:
        """Say whether the groups under way may leave others more than when this was asked last, or none is under way."""
        before = self._counted
        self._counted = tuple(key for key, decision in self._begun.items() if decision.is_counted)
        return not self._begun or self._counted != before

    @property
    def busy(self) -> bool:
        """Whether a decision is under way."""
        return bool(self._begun)

    def is_begun(self, queued: Queued) -> bool:
        """Say whether this is a group, and the decision about it goes on at its next turn."""
        return isinstance(queued, WaitingGroup) and queued.pod_group.key in self._begun

    def leaves_room(self, queued: Queued) -> bool:
        """Say whether one may be decided now: what it asks for leaves groups that are being decided as much as they need."""
        return self.is_begun(queued) or all(
            decision.leaves_room(demands_of(queued)) for decision in self._other_decisions(queued)
        )

    def note_granted(self, queued: Queued) -> None:
        """Note that one was served while groups are being decided."""
        for decision in self._other_decisions(queued):
            decision.note_granted(demands_of(queued))

    def abandon(self) -> None:
        """Give up all decisions that are under way: this replica acts no longer."""
        for key in tuple(self._begun):
            self._release(key)

    def _other_decisions(self, queued: Queued) -> list[GroupDecision]:
        own = queued.pod_group.key if isinstance(queued, WaitingGroup) else ""
        return [decision for key, decision in self._begun.items() if key != own]

    def _release(self, key: str) -> None:
        """Forget a decision; who was refused beside what it held may now be served: the group has got nothing, or not all of that, or others."""
        decision = self._begun.pop(key)
        decision.close()
        if decision.suspended:
            self._decider.snapshot.retry_epoch += 1
            self.resumes = min(self.resumes, self._clock())

    def _may_begin(self, group: WaitingGroup) -> bool:
        began = self._clock()
        decider = self._decider
        if not group.whole:
            self._incomplete(group)
        else:
            self._since.pop(group.pod_group.key, None)
            if any(decider.writes.paused(demand.key) for demand in group.demands):
                return False
            if group.more == 0:
                for demand in group.demands:
                    groupevents.without(decider.recorder, group, demand)
                return False
            if not decider.refusals.stands(group.key):
                return True
            self._clear(group)
        self._pauses.looked_at(group, self._clock() - began)
        return False

    def _end(self, decision: GroupDecision, capacity: HostCapacity) -> None:
        """Tell what became of a group."""
        group, decider, refused = decision.group, self._decider, decision.refused
        self._release(group.pod_group.key)
        if refused is None:
            if decision.granted:
                self._pauses.served(group)
            return
        rests = not isinstance(refused, OverLimit | BrokenInput)
        self._pauses.refused(group, decision.seconds, decision.room, rests=rests)
        match refused:
            case OverLimit():
                decider.refusals.refuse(group.key, "quota")
                decider.quotas.report(group.demands, refused)
                self._clear(group)
            case BrokenInput():
                decider.refusals.refuse(group.key, "broken")
                for demand in group.demands:
                    events.broken(decider.recorder, demand, refused)
                self._clear(group)
            case DeviceShortage():
                decider.refusals.refuse(group.key, "short")
                for demand in group.demands:
                    groupevents.too_large(decider.recorder, group, demand, refused.needed, refused.free)
                self._clear(group)
            case DomainShortage():
                decider.refusals.refuse(group.key, "domain")
                for demand in group.demands:
                    groupevents.domain(decider.recorder, group, demand, refused)
                self._clear(group)
            case GangRefused():
                self._refuse(group, refused, capacity)
        if decision.epoch != decider.snapshot.retry_epoch:
            # Something that may let it in happened after it had been looked at in part.
            decider.refusals.forget((group.key,))

    def _refuse(self, group: WaitingGroup, answer: GangRefused, capacity: HostCapacity) -> None:
        decider = self._decider
        blocked = group.demands[answer.member]
        if answer.refusal is None:
            decider.refusals.refuse(group.key, "no node")
            reason = decider.candidates.ask(blocked, capacity)
            if not isinstance(reason, str):
                # By itself it would find a node; together with the other pods of the group it does not.
                reason = "no node can take the pod beside the others of its group"
            events.not_allocated(decider.recorder, blocked, reason)
        else:
            decider.refusals.refuse(group.key, answer.refusal.verdict)
            events.refused(decider.recorder, blocked, answer.refusal.explanation, decider.snapshot)
        for demand in group.demands:
            if demand is not blocked:
                groupevents.blocked(decider.recorder, group, demand, answer.served, blocked)
        self._clear(group)

    def _incomplete(self, group: WaitingGroup) -> None:
        self._clear(group)
        if group.pod_group.flaw:
            groupevents.broken(self._decider.recorder, group.pod_group)
            return
        now = self._clock()
        if now - self._since.setdefault(group.pod_group.key, now) >= PATIENCE:
            groupevents.incomplete(self._decider.recorder, group)

    def _clear(self, group: WaitingGroup) -> None:
        """Clear allocations of the group's gated pods: others may use the devices until all of them can be served.

        Not where enough of its pods have theirs, and only others wait: these start, once their partitions are cut, say.
        """
        snapshot, writes = self._decider.snapshot, self._decider.writes
        if not group.pod_group.flaw and group.served >= group.pod_group.least:
            return
        looked = set[str]()
        """Claims (UIDs): all pods may name one, each of which is looked at then."""
        for pod in group.pod_group.pods:
            if GATE not in pod.gates or writes.ungating(pod.uid):
                continue
            for claim in snapshot.named_claims(pod):
                if claim is None or claim.uid in looked:
                    continue
                looked.add(claim.uid)
                if self._is_unused(claim):
                    writes.clear(claim, f"group {group.pod_group.key} cannot have all that it needs", "group")

    def _is_unused(self, claim: Claim) -> bool:
        """Say whether we allocated the claim, and no pod can have started with it."""
        return (
            claim.allocation is not None
            and claim.allocated_by == self._decider.manager
            and not is_taken_up(claim, self._decider.snapshot)
            and all(pod.node is None and GATE in pod.gates for pod in self._decider.snapshot.users(claim))
        )
