"""Preemptor: for what pods are evicted at once: one demand, or those demands of a group that must be served together.

In: a demand or group that waits. Out: what the allocator, quotas and Events are asked about it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from apportion.allocator.finished import finished
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.scheduling.demands.groups import WaitingGroup, group_of, with_demands
from apportion.scheduling.demands.waiting import WaitingDemand

MOST_MEMBERS = 64
"""Demands of a group at most: victims for all of them may have to be searched without a pause, if their nodes change all the time."""


@dataclass(frozen=True, slots=True)
class Preemptor:
    """One that waits, and for which others may go."""

    demand: WaitingDemand
    """All that it asks for; of a group the claims of its members, one member after the other."""
    members: tuple[WaitingDemand, ...]
    """What is placed by itself, on one node each."""
    group: WaitingGroup | None = None

    @property
    def key(self) -> str:
        """Stays the same as long as the same claims wait."""
        return self.demand.key

    @property
    def head(self) -> WaitingDemand | WaitingGroup:
        """What the queue and its reservations know."""
        return self.demand if self.group is None else self.group

    def parts(self, asked: Iterable[Claim]) -> tuple[WaitingDemand, ...]:
        """Return the members as they ask with these claims, which are given in the order of `demand`."""
        rows = iter(asked)
        return tuple(
            replace(member, asked=tuple(next(rows) for _ in member.claims)) for member in self.members
        )

    def renewed(self, waiting: Mapping[str, WaitingDemand], taken: Collection[str]) -> "Preemptor":
        """Return it with its demands as they are now, by UID of each of their claims; those that do not wait stay as they were.

        One that had some of its claims served, or was joined, may have another key by now; not that of one that is `taken`: those are others.
        """
        known = {*taken, *(member.key for member in self.members)}
        members: list[WaitingDemand] = []
        for member in self.members:
            uids = (member.key, *(claim.uid for claim in member.claims))
            found = next((waiting[uid] for uid in uids if uid in waiting), member)
            members.append(found if found.key == member.key or found.key not in known else member)
            known.add(members[-1].key)
        if all(now is before for now, before in zip(members, self.members, strict=True)):
            return self
        return Preemptor(members[0] if self.group is None else _joined(members), tuple(members), self.group)


def of_demand(demand: WaitingDemand) -> Preemptor:
    """Return a demand that belongs to no group."""
    return Preemptor(demand, (demand,))


def of_group(group: WaitingGroup) -> Preemptor | None:
    """Return the first demands of a group that are enough; None: nobody goes for it.

    None where its least number is served already, pods are missing, or its pods differ in priority: who goes for it has a lower priority than all of them, and as a
    victim it has the highest, or groups could evict each other in turns.
    """
    state = group.pod_group
    if not group.whole or group.more == 0 or group.served >= state.least:
        return None
    if len({pod.priority for pod in (*state.pods, *group.pods)}) != 1:
        return None
    members = group.first_enough
    if not members or len(members) > MOST_MEMBERS:
        return None
    return Preemptor(_joined(members), members, group)


def current_group(members: Sequence[WaitingDemand], snapshot: Snapshot) -> WaitingGroup | None:
    """Return the group of some demands as it is now, with these demands alone; None: pods are missing, so that it waits for them."""
    pod = next((each for demand in members for each in demand.pods if each.group is not None), None)
    found = group_of(pod, snapshot) if pod is not None else None
    group = finished(with_demands(found, members, snapshot)) if found is not None else None
    return group if group is not None and group.whole else None


def _joined(members: Iterable[WaitingDemand]) -> WaitingDemand:
    """Return several demands as one, for what counts them together."""
    found = tuple(members)
    pods = {pod.uid: pod for member in found for pod in member.pods}
    tied = {claim.uid: claim for member in found for claim in member.tied}
    return WaitingDemand(
        tuple(claim for member in found for claim in member.claims),
        tuple(pods.values()),
        tuple(tied.values()),
        tuple(claim for member in found for claim in member.asked),
    )
