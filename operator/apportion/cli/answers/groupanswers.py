"""GroupAnswers: what a demand gets as one of its group, whose pods the operator serves together.

In: a demand that could be served by itself, all that wait. Out: its decision beside those of the others of its group; or none, and the operator's Event that says why.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from apportion.allocator.decision import Decision
from apportion.allocator.finished import finished
from apportion.allocator.gang.count import count_devices
from apportion.allocator.gang.members import DeviceShortage, DomainShortage, GangAnswer, GangServed
from apportion.allocator.gang.place import place_gang
from apportion.allocator.gang.placed import PlacedMembers
from apportion.cluster.recorder import Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.scheduling.candidates.candidates import Candidates
from apportion.scheduling.deciding.groupdecision import gang_members
from apportion.scheduling.deciding.memberdemands import MemberDemands
from apportion.scheduling.demands.groupladder import ladder_of
from apportion.scheduling.demands.groups import CrossGroupDemand, WaitingGroup, group_of, with_demands
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.events import events, groupevents
from apportion.scheduling.quota.admission import Admission
from apportion.scheduling.quota.batch import BatchAdmission
from apportion.scheduling.quota.grouplimits import Answered, group_within_limits


@dataclass(frozen=True, slots=True)
class GroupAnswers:
    """Decides about groups."""

    snapshot: Snapshot
    candidates: Candidates
    quotas: Admission
    recorder: Recorder
    """Is told why there is no decision."""

    def of(self, demand: WaitingDemand, waiting: Sequence[WaitingDemand]) -> Decision | None:
        """Return the decision about a demand of a group; `waiting`: all that wait. Raises OverLimit and BrokenInput."""
        [(name, pod), *others] = demand.members.items()
        state = group_of(pod, self.snapshot)
        if others or state is None:
            groupevents.cross_group(self.recorder, CrossGroupDemand(demand, tuple(sorted(demand.members))))
            return None
        own = [
            each
            for each in waiting
            if each.members.keys() == {name} and each.members[name].namespace == pod.namespace
        ]
        group = finished(with_demands(state, own, self.snapshot))
        if not group.whole:
            groupevents.incomplete(self.recorder, group)
            return None
        if group.more == 0:
            groupevents.without(self.recorder, group, demand)
            return None
        answer = self._decide(group)
        if isinstance(answer, GangServed):
            found = answer.decisions[group.demands.index(demand)]
            if found is None:
                groupevents.without(self.recorder, group, demand)
            return found
        self._tell(group, demand, answer)
        return None

    def _decide(self, group: WaitingGroup) -> GangAnswer | DeviceShortage | None:
        batch = BatchAdmission(self.quotas, self.snapshot.devices.device)
        finished(batch.check_group(group.pods_by_demand, group.enough))
        return finished(group_within_limits(group, batch, partial(self._about, group)))

    def _about(self, group: WaitingGroup, demands: Sequence[WaitingDemand]) -> Answered:
        """Return what the group gets where its demands ask so, whatever the limits."""
        snapshot, candidates = self.snapshot, self.candidates
        members = yield from gang_members(group, demands, candidates, snapshot)
        asked = MemberDemands(demands, candidates, snapshot, candidates.capacity())
        with PlacedMembers(snapshot.state, asked) as placed:
            counted = count_devices(snapshot.state, members, asked, enough=group.enough)
            if isinstance(counted, DeviceShortage):
                return counted
            policy = snapshot.managed.policy(group.demands[0].claims[0])
            ladder = ladder_of(group, policy, snapshot)
            return (
                yield from place_gang(
                    placed,
                    members,
                    enough=group.enough,
                    most=group.more,
                    prefer=candidates.idle,
                    ladder=ladder,
                )
            )

    def _tell(
        self, group: WaitingGroup, demand: WaitingDemand, answer: GangAnswer | DeviceShortage | None
    ) -> None:
        match answer:
            case DeviceShortage():
                groupevents.too_large(self.recorder, group, demand, answer.needed, answer.free)
            case DomainShortage():
                groupevents.domain(self.recorder, group, demand, answer)
            case GangServed() | None:
                pass
            case _ if group.demands[answer.member] is not demand:
                blocked = group.demands[answer.member]
                groupevents.blocked(self.recorder, group, demand, answer.served, blocked)
            case _ if answer.refusal is not None:
                events.refused(self.recorder, demand, answer.refusal.explanation, self.snapshot)
            case _:
                text = "no node can take the pod beside the others of its group"
                events.not_allocated(self.recorder, demand, text)
