"""GroupDecider: the demands of a pod group, all or nothing.

In: a group's waiting demands, the capacity of nodes. Out: decisions for enough of its pods, each on a node of its own; or
none, and Events that say what is missing. Allocations of a group that cannot be completed are cleared.
"""

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from apportion.allocator.demand import Demand
from apportion.allocator.gang import GangRefused, GangServed, GangTooLarge, Member, allocate_gang
from apportion.allocator.policyterms import terms_of
from apportion.api.contract import GATE
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.errors import BrokenInput
from apportion.scheduling import events
from apportion.scheduling.backfill.heads import key_of, members_of
from apportion.scheduling.candidates import Candidates, unplaced
from apportion.scheduling.decider import Decider
from apportion.scheduling.groups import WaitingGroup
from apportion.scheduling.hostcapacity import HostCapacity
from apportion.scheduling.quota.batch import BatchAdmission
from apportion.scheduling.quota.overlimit import OverLimit
from apportion.scheduling.waiting import WaitingDemand

PATIENCE = 5.0
"""Seconds that a group may be incomplete before its users get an Event: controllers make pods one by one."""
LARGE = 32
"""Demands from which on a group that was refused rests: to try it takes as long as to try so many demands."""
_OTHERS = 50
"""Seconds that others get for each second in which a large group was looked at and not served."""
_FIRST_REST, _LONGEST_REST = 1.0, 30.0
"""Seconds."""


class GroupDecider:
    """Decides pod groups."""

    def __init__(self, decider: Decider, clock: Callable[[], float]) -> None:
        self._decider = decider
        self._quotas = BatchAdmission(decider.quotas)
        self._clock = clock
        self._since: dict[str, float] = {}
        """When a group was first seen incomplete."""
        self._skipped: dict[str, float] = {}
        """Until when a large group that was not served is not looked at, by group."""
        self._now = 0.0
        """When this pass began, by the clock."""
        self.resumes = math.inf
        """When the first of the groups that this pass skips is looked at, by the clock."""
        self._rests: dict[str, tuple[float, float]] = {}
        """Until when a large group that was refused rests, and for how many seconds, by group."""

    def skips(self, key: str) -> bool:
        """Say whether a group (`namespace/name`) is not looked at in this pass: it is large and was not served."""
        return self._skipped.get(key, 0.0) > self._now

    def start(self) -> Callable[[str], bool]:
        """Start a pass; returns `skips`, which gives the same answer until its end: a group that its queue leaves out stays skipped."""
        self._now = self._clock()
        return self.skips

    def begin(self, groups: Iterable[WaitingGroup]) -> None:
        """Start a pass over these groups; all others but those that are skipped are forgotten."""
        self._skipped = {key: until for key, until in self._skipped.items() if self.skips(key)}
        self.resumes = min(self._skipped.values(), default=math.inf)
        kept = {group.pod_group.key for group in groups} | self._skipped.keys()
        self._since = {key: at for key, at in self._since.items() if key in kept}
        self._rests = {key: rest for key, rest in self._rests.items() if key in kept}

    def begin_reservations(
        self, gone: Collection[str], came: Collection[WaitingDemand], groups: Iterable[WaitingGroup]
    ) -> None:
        """Start a pass of the reservations (as their `begin`); none stays behind which others of a cohort would wait."""
        reservations, quotas = self._decider.reservations, self._decider.quotas
        reservations.begin(gone, came, groups, self.skips)
        ahead: list[WaitingDemand] = []
        for each in tuple(reservations.reserved):
            if quotas.stands_back(members_of(each.head), ahead):
                reservations.drop(key_of(each.head))
            else:
                ahead.extend(members_of(each.head))

    def decide(self, group: WaitingGroup, capacity: HostCapacity) -> int:
        """Serve a group or say why not; returns how many claims were granted."""
        began = self._clock()
        granted = self._decide(group, capacity)
        if not granted and len(group.pod_group.pods) >= LARGE:
            now = self._clock()
            rests, _ = self._rests.get(group.pod_group.key, (0.0, 0.0))
            self._skipped[group.pod_group.key] = max(rests, now + (now - began) * _OTHERS)
        return granted

    def _decide(self, group: WaitingGroup, capacity: HostCapacity) -> int:
        if not group.whole:
            self._incomplete(group)
            return 0
        self._since.pop(group.pod_group.key, None)
        decider = self._decider
        if any(decider.writes.paused(demand.key) for demand in group.demands):
            return 0
        until, _ = self._rests.get(group.pod_group.key, (0.0, 0.0))
        if decider.refusals.stands(group.key) or self._clock() < until:
            self._clear(group)
            return 0
        try:
            self._quotas.check_group(group.pods_by_demand, group.enough)
            answer = self._answer(group, capacity)
            if isinstance(answer, GangServed):
                answer = GangServed(
                    self._quotas.group_within(group.pods_by_demand, answer.decisions, group.enough)
                )
        except OverLimit as found:
            decider.refusals.refuse(group.key, "quota")
            decider.quotas.report(group.demands, found)
            self._clear(group)
            return 0
        except BrokenInput as error:
            decider.refusals.refuse(group.key, "broken")
            for demand in group.demands:
                events.broken(decider.recorder, demand, error)
            self._clear(group)
            return 0
        if not isinstance(answer, GangServed):
            with decider.reservations.lifted(group) as nodes:
                reserved = self._answer(group, capacity) if nodes else answer
                if isinstance(reserved, GangServed):
                    return self._grant(group, reserved, capacity)
        if isinstance(answer, GangTooLarge):
            self._rest(group)
            decider.refusals.refuse(group.key, "short")
            for demand in group.demands:
                events.group_too_large(decider.recorder, group, demand, answer.needed, answer.free)
            self._clear(group)
            return 0
        if isinstance(answer, GangRefused):
            self._rest(group)
            self._refuse(group, answer, capacity)
            return 0
        return self._grant(group, answer, capacity)

    def _grant(self, group: WaitingGroup, answer: GangServed, capacity: HostCapacity) -> int:
        decider = self._decider
        self._rests.pop(group.pod_group.key, None)
        decider.reservations.drop(key_of(group))
        granted = 0
        for demand, decision in zip(group.demands, answer.decisions, strict=True):
            if decision is not None:
                decider.learn(demand, decision)
                decider.grant(demand, decision, capacity)
                granted += len(demand.claims)
            else:
                events.group_without(decider.recorder, group.pod_group, demand)
        return granted

    def _answer(self, group: WaitingGroup, capacity: HostCapacity) -> GangServed | GangRefused | GangTooLarge:
        """Return what the group gets, without shares where no agent would prepare them. Raises BrokenInput: there is nothing else."""
        decider = self._decider
        answer = self._allocate(group, capacity)
        if isinstance(answer, GangTooLarge | GangRefused):
            return answer
        try:
            for demand, decision in zip(group.demands, answer.decisions, strict=True):
                if decision is not None:
                    decider.admissible.check(demand, decision)
        except BrokenInput:
            whole = replace(group, demands=tuple(map(decider.admissible.without_shares, group.demands)))
            other = self._allocate(whole, capacity)
            if isinstance(other, GangTooLarge | GangRefused):
                raise
            return other
        return answer

    def _allocate(
        self, group: WaitingGroup, capacity: HostCapacity
    ) -> GangServed | GangRefused | GangTooLarge:
        decider = self._decider
        return allocate_gang(
            decider.snapshot.state,
            [self._member(group, demand) for demand in group.demands],
            _MemberDemands(group, decider.candidates, decider.snapshot, capacity),
            enough=group.enough,
            prefer=decider.candidates.idle,
        )

    def _member(self, group: WaitingGroup, demand: WaitingDemand) -> Member:
        terms = terms_of(self._decider.snapshot.managed.policy(demand.claims[0]))
        shape = self._decider.candidates.shape(demand)
        pods = len(group.own_pods(demand))
        return Member(pods, terms, kind=None if shape is None else (shape, terms, pods))

    def _rest(self, group: WaitingGroup) -> None:
        """Let a large group that was refused wait, each time twice as long."""
        if len(group.demands) >= LARGE:
            _, last = self._rests.get(group.pod_group.key, (0.0, 0.0))
            seconds = min(last * 2 or _FIRST_REST, _LONGEST_REST)
            self._rests[group.pod_group.key] = self._clock() + seconds, seconds

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
                events.group_blocked(decider.recorder, group, demand, answer.served, blocked)
        self._clear(group)

    def _incomplete(self, group: WaitingGroup) -> None:
        self._clear(group)
        if group.pod_group.flaw:
            events.group_broken(self._decider.recorder, group.pod_group)
            return
        now = self._clock()
        if now - self._since.setdefault(group.pod_group.key, now) >= PATIENCE:
            events.group_incomplete(self._decider.recorder, group)

    def _clear(self, group: WaitingGroup) -> None:
        """Clear allocations of the group's gated pods: others may use the devices until all of them can be served."""
        snapshot, writes = self._decider.snapshot, self._decider.writes
        for pod in group.pod_group.pods:
            if GATE not in pod.gates or writes.ungating(pod.uid):
                continue
            for claim in snapshot.named_claims(pod):
                if claim is not None and self._is_unused(claim):
                    writes.clear(claim, f"group {group.pod_group.key} cannot have all that it needs", "group")

    def _is_unused(self, claim: Claim) -> bool:
        """Say whether we allocated the claim, and no pod can have started with it."""
        return (
            claim.allocation is not None
            and claim.allocated_by == self._decider.manager
            and not claim.reserved_for
            and all(pod.node is None and GATE in pod.gates for pod in self._decider.snapshot.users(claim))
        )


class _MemberDemands:
    """The demands of a group's members, for one decision: pods are counted on the nodes of the members served so far."""

    def __init__(
        self, group: WaitingGroup, candidates: Candidates, snapshot: Snapshot, capacity: HostCapacity
    ) -> None:
        self._group = group
        self._candidates = candidates
        self._snapshot = snapshot
        self._capacity = capacity
        self._tried = capacity

    def restart(self) -> None:
        """Begin another try: no member is served."""
        self._tried = self._capacity

    def of(self, member: int) -> Demand | None:
        """Return a member's demand; None: no node fits its pods."""
        asked = self._candidates.ask(self._group.demands[member], self._tried)
        return None if isinstance(asked, str) else asked

    def serve(self, member: int, node: str) -> None:
        """Count the pods of a member on its node."""
        if self._tried is self._capacity:
            self._tried = self._capacity.copy()
        for pod in unplaced(self._group.demands[member], self._snapshot):
            self._tried.take(node, pod)
