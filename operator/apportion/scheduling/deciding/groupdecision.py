"""GroupDecision: one decision about a pod group, in steps between which others run and may be decided.

In: a group's waiting demands, the capacity of nodes. Out: all that it gets, assumed and being written; or why it gets nothing. What it
has found so far is held meanwhile. When something changed, it is checked that its demands still wait as they did, and pods whose node or
devices were lost are placed anew.
"""

import math
from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TypeAlias

from apportion.allocator.decision import Decision
from apportion.allocator.gang.count import count_devices
from apportion.allocator.gang.members import (
    DeviceShortage,
    DomainShortage,
    GangAnswer,
    GangRefused,
    GangServed,
    Member,
)
from apportion.allocator.gang.place import place_gang
from apportion.allocator.gang.placed import PlacedMembers
from apportion.allocator.policyterms import terms_of
from apportion.cluster.snapshot import Snapshot
from apportion.errors import BrokenInput
from apportion.scheduling.backfill.heads import key_of
from apportion.scheduling.candidates.candidates import Candidates
from apportion.scheduling.deciding.awaitedroom import AwaitedRoom
from apportion.scheduling.deciding.decider import Decider
from apportion.scheduling.deciding.grouppauses import LARGE
from apportion.scheduling.deciding.memberdemands import MemberDemands
from apportion.scheduling.demands.groupladder import ladder_of
from apportion.scheduling.demands.groups import WaitingGroup, is_current_group
from apportion.scheduling.demands.waiting import WaitingDemand, is_current
from apportion.scheduling.events import groupevents
from apportion.scheduling.quota.batch import BatchAdmission
from apportion.scheduling.quota.grouplimits import Answered, group_within_limits
from apportion.scheduling.quota.overlimit import OverLimit
from apportion.scheduling.room.hostcapacity import HostCapacity

_LIFTED_FOR = 32
"""Steps for which what is reserved is lifted: to lift it takes longer than a step where many nodes are reserved."""
Refused: TypeAlias = GangRefused | DeviceShortage | DomainShortage | BrokenInput | OverLimit


class GroupDecision:
    """One decision, from its beginning to its end."""

    def __init__(self, group: WaitingGroup, decider: Decider, capacity: HostCapacity) -> None:
        self.group = group
        self.granted = 0
        """Claims granted so far."""
        self.decided: list[tuple[WaitingDemand, Decision]] = []
        """What was granted, and to whom."""
        self.refused: Refused | None = None
        """Why the group gets nothing; None: it does, or something changed, and the next pass decides about it anew."""
        self.room: AwaitedRoom | None = None
        """What it lacks, if a large group was refused for devices; None: nobody has counted that."""
        self.suspended = False
        """Whether others were decided before its end."""
        self.seconds = 0.0
        """How long it took so far."""
        self.epoch = decider.snapshot.retry_epoch
        """When it began."""
        self._decider = decider
        self._capacity = capacity
        self._quotas = BatchAdmission(decider.quotas, decider.snapshot.devices.device)
        self._spare: float = 0
        """Devices that are free beyond what the group needs; none before they were counted, infinite where that says nothing."""
        self.is_counted = False
        """Whether it is known how many devices it leaves to others."""
        self._classes = _classes(group.demands)
        self._asked: list[Member] = []
        """Its members, as they were asked for."""
        self._pods = frozenset(pod.uid for pod in (*group.pod_group.pods, *group.pods))
        self._managed = decider.snapshot.managed
        self._seen = decider.snapshot.changes.pods.end
        self._steps = self._decide()

    def __iter__(self) -> Iterator[None]:
        return self._steps

    def close(self) -> None:
        """Give up, and release what is held."""
        self._steps.close()

    def leaves_room(self, demands: Sequence[WaitingDemand]) -> bool:
        """Say whether these demands, if they are served, leave the group as many devices of its classes as it needs."""
        return device_count(demands) <= self._spare or not self._competes(demands)

    def note_granted(self, demands: Sequence[WaitingDemand]) -> None:
        """Note that these demands were served meanwhile."""
        if self._competes(demands):
            self._spare -= device_count(demands)

    def _competes(self, demands: Iterable[WaitingDemand]) -> bool:
        return not self._classes.isdisjoint(_classes(demands))

    def _decide(self) -> Generator[None, None, None]:
        decider, group = self._decider, self.group
        members = MemberDemands(group.demands, decider.candidates, decider.snapshot, self._capacity)
        with PlacedMembers(decider.snapshot.state, members) as placed:
            try:
                yield from self._quotas.check_group(group.pods_by_demand, group.enough)
                self.refused = yield from self._serve(placed)
                if self.refused is not None:
                    placed.clear()
                    yield from self._serve_of_reserved(placed)
                if self.refused is not None:
                    yield from self._count(placed)
            except (OverLimit, BrokenInput) as error:
                self.refused = error

    def _serve(self, placed: PlacedMembers) -> Generator[None, None, Refused | None]:
        """Grant what the group gets; returns why it gets nothing, None: it does, or something changed. Raises OverLimit and BrokenInput."""
        answer = yield from self._within_quota(placed)
        if not isinstance(answer, GangServed):
            return answer
        if not placed.drop_lost() or self._has_enough(answer, placed):
            yield from self._grant(answer, placed)
        return None

    def _serve_of_reserved(self, placed: PlacedMembers) -> Generator[None, None, None]:
        """Grant what the group gets with all that is reserved and that it may use. While others run nothing is lifted, but what is placed is held."""

        def serve() -> Generator[None, None, None]:
            if (yield from self._serve(placed)) is None:
                self.refused = None

        steps: Iterator[None] | None = None
        ended = False
        while not ended:
            with self._decider.reservations.lifted(self.group) as nodes:
                if steps is None and not nodes:
                    return
                steps = steps or serve()
                ended = len(list(islice(steps, _LIFTED_FOR))) < _LIFTED_FOR
            yield

    def _count(self, placed: PlacedMembers) -> Generator[None, None, None]:
        """Count for how many of its pods there is room, if it is large."""
        if len(self.group.demands) < LARGE or not isinstance(placed.demands, MemberDemands):
            return
        self._spare = math.inf
        decider, members = self._decider, self._asked
        room = AwaitedRoom(self.group, members, placed.demands, decider.candidates, decider.snapshot)
        yield from room.count()
        self.room = room

    def _within_quota(self, placed: PlacedMembers) -> Answered:
        """Return what the group gets within the limits. Raises OverLimit, BrokenInput: there is too little else."""
        return group_within_limits(self.group, self._quotas, partial(self._about, placed))

    def _about(self, placed: PlacedMembers, demands: Sequence[WaitingDemand]) -> Answered:
        """Return what the group gets where its demands ask so, whatever the limits; what is placed is given up. Raises BrokenInput."""
        decider = self._decider
        placed.clear()
        placed.demands = MemberDemands(demands, decider.candidates, decider.snapshot, self._capacity)
        return self._answer(demands, placed)

    def _answer(self, demands: Sequence[WaitingDemand], placed: PlacedMembers) -> Answered:
        """Return what the group gets, other devices where no agent would prepare the first. Raises BrokenInput: there are none."""
        decider = self._decider
        members = self._asked = yield from gang_members(
            self.group, demands, decider.candidates, decider.snapshot
        )
        counted = count_devices(decider.snapshot.state, members, placed.demands, enough=self.group.enough)
        if isinstance(counted, DeviceShortage):
            return counted
        self._spare = math.inf if counted is None else counted
        self.is_counted = True
        yield
        answer = yield from self._place(members, placed)
        if not isinstance(answer, GangServed):
            return answer
        try:
            self._check(demands, answer)
        except BrokenInput as error:
            placed.clear()
            less = tuple(decider.admissible.otherwise(demand, error) for demand in demands)
            placed.demands = MemberDemands(less, decider.candidates, decider.snapshot, self._capacity)
            members = yield from gang_members(self.group, less, decider.candidates, decider.snapshot)
            other = yield from self._place(members, placed)
            if not isinstance(other, GangServed):
                raise
            self._check(less, other)
            return other
        return answer

    def _check(self, demands: Sequence[WaitingDemand], answer: GangServed) -> None:
        for demand, decision in zip(demands, answer.decisions, strict=True):
            if decision is not None:
                self._decider.admissible.check(demand, decision)

    def _place(
        self, members: Sequence[Member], placed: PlacedMembers
    ) -> Generator[None, None, GangAnswer | None]:
        """Return the answer; None: something changed so that the next pass has to decide."""
        ladder = ladder_of(
            self.group, self._managed.policy(self.group.demands[0].claims[0]), self._decider.snapshot
        )
        steps = place_gang(
            placed,
            members,
            enough=self.group.enough,
            most=self.group.more,
            prefer=self._decider.candidates.idle,
            ladder=ladder,
        )
        while self._is_current():
            try:
                next(steps)
            except StopIteration as end:
                answer: GangAnswer = end.value
                return answer
            yield
        return None

    def _is_current(self) -> bool:
        """Say whether the group waits as it did when the queue was made; looks at all of it only if some of it changed."""
        snapshot = self._decider.snapshot
        self._seen, changed = snapshot.changes.pods.since(self._seen)
        if changed is not None and self._pods.isdisjoint(changed) and snapshot.managed is self._managed:
            return True
        self._managed = snapshot.managed
        return is_current_group(self.group, snapshot)

    def _has_enough(self, answer: GangServed, placed: PlacedMembers) -> bool:
        """Say whether what was lost since devices were chosen, while it was found out what they take of limits, leaves devices for enough pods."""
        rows = enumerate(zip(self.group.pods_by_demand, answer.decisions, strict=True))
        kept = (pods for number, ((_, pods), own) in rows if own is not None and number in placed.decisions)
        return sum(kept) >= self.group.enough

    def _grant(self, answer: GangServed, placed: PlacedMembers) -> Generator[None, None, None]:
        """Grant what is held, member by member; one that has changed meanwhile goes without."""
        decider = self._decider
        nodes = {decision.node for decision in answer.decisions if decision is not None}
        decider.end_reservation(key_of(self.group), nodes)
        with self._quotas.promised(self.group.demands, answer.decisions) as fulfil:
            rows = zip(self.group.demands, answer.decisions, strict=True)
            for number, (demand, decision) in enumerate(rows):
                if decision is None:
                    groupevents.without(decider.recorder, self.group, demand)
                elif number in placed.decisions:
                    placed.drop(number)
                    fulfil(demand.key)
                    if is_current(demand, decider.snapshot):
                        decider.learn(demand, decision)
                        decider.grant(demand, decision, self._capacity)
                        self.granted += len(demand.claims)
                        self.decided.append((demand, decision))
                    yield
                    placed.drop_lost()


def gang_members(
    group: WaitingGroup, demands: Sequence[WaitingDemand], candidates: Candidates, snapshot: Snapshot
) -> Generator[None, None, list[Member]]:
    """Return a member for each of a group's demands; yields after each."""
    members, kinds = [], dict[object, int]()
    for demand in demands:
        terms = terms_of(snapshot.managed.policy(demand.claims[0]))
        shape = candidates.shape(demand)
        pods = len(group.own_pods(demand))
        # A number, because to hash a shape takes long.
        kind = None if shape is None else kinds.setdefault((shape, terms, pods), len(kinds))
        members.append(Member(pods, terms, kind=kind))
        yield
    return members


def device_count(demands: Iterable[WaitingDemand]) -> int:
    """Return how many devices these demands ask for at least, as far as they say a number."""
    return sum(
        min(alternative.count for alternative in slot.alternatives)
        for demand in demands
        for claim in demand.claims
        for slot in claim.slots
    )


def _classes(demands: Iterable[WaitingDemand]) -> frozenset[str]:
    return frozenset(name for demand in demands for claim in demand.claims for name in claim.classes)
