"""Pod groups: pods that start together or not at all.

In: the snapshot. Out: what its pods say of a group, and how far it is. A pod counts when it is
served (bound, succeeded, or with all of its claims allocated) or when only our gate holds it back; a group with enough of
them is whole.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.groupmembership import MOST, NATIVE, TOPOLOGY, GroupMembership, GroupTopology
from apportion.dra.pod import Pod
from apportion.scheduling.demands.waiting import WaitingDemand, claims_of, is_current, is_others, ready
from apportion.scheduling.pace import Pace


@dataclass(frozen=True, slots=True)
class PodGroupState:
    """One group as its pods describe it."""

    namespace: str
    name: str
    pods: tuple[Pod, ...]
    """Its pods, the oldest first; without those that failed or are being deleted."""
    least: int
    """How many must get their devices together; 0 with a flaw."""
    most: int | None = None
    """How many may have devices at once; None: all."""
    topology: GroupTopology | None = None
    """How close together they have to be; None: it says nothing."""
    flaw: str = ""
    """What is wrong with its labels, annotations or PodGroup object, for its users."""

    @property
    def key(self) -> str:
        """`namespace/name`, for people."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class WaitingGroup:
    """The demands of one group that wait now."""

    pod_group: PodGroupState
    demands: tuple[WaitingDemand, ...]
    served: int = 0
    """Pods of the group that have what they need already."""
    key: str = field(init=False, compare=False, repr=False)
    """Stays the same as long as the same claims wait and as many are needed."""

    def __post_init__(self) -> None:
        """Compute once what a pass reads several times."""
        # Neighbours by index are placed one after the other, so that they get nodes close to each other.
        ordered = tuple(sorted(self.demands, key=_index))
        object.__setattr__(self, "demands", ordered)
        keys = [demand.key for demand in self.demands]
        object.__setattr__(self, "key", " ".join(["group", self.pod_group.key, str(self.enough), *keys]))

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The group's pods that wait, in the order of their demands."""
        return tuple(pod for demand in self.demands for pod in self.own_pods(demand))

    @property
    def pods_by_demand(self) -> list[tuple[WaitingDemand, int]]:
        """Its demands, each with how many pods of the group it serves."""
        return [(demand, len(self.own_pods(demand))) for demand in self.demands]

    def own_pods(self, demand: WaitingDemand) -> tuple[Pod, ...]:
        """Return the pods of a demand that belong to the group: others may share claims with them."""
        return tuple(
            pod for pod in demand.pods if pod.group is not None and pod.group.name == self.pod_group.name
        )

    @property
    def enough(self) -> int:
        """How many pods more must get their devices now."""
        return max(1, self.pod_group.least - self.served)

    @property
    def first_enough(self) -> tuple[WaitingDemand, ...]:
        """The first of its demands that are enough of its pods; nothing where all of them are not."""
        found, missing = list[WaitingDemand](), self.enough
        for demand, pods in self.pods_by_demand:
            if missing > 0:
                found.append(demand)
                missing -= pods
        return tuple(found) if missing <= 0 else ()

    @property
    def more(self) -> int | None:
        """How many pods more may get their devices now; None: all."""
        most = self.pod_group.most
        if most is None:
            return None
        ended = sum(pod.phase == "Succeeded" for pod in self.pod_group.pods)
        return max(0, most - (self.served - ended))

    @property
    def whole(self) -> bool:
        """Whether there are enough pods to serve them together."""
        return not self.pod_group.flaw and len(self.pods) >= self.pod_group.least - self.served


@dataclass(frozen=True, slots=True)
class CrossGroupDemand:
    """A demand whose pods belong to several groups: it cannot be all or nothing for each."""

    demand: WaitingDemand
    groups: tuple[str, ...]


Queued: TypeAlias = WaitingDemand | WaitingGroup | CrossGroupDemand
"""What is decided at once."""


def with_demands(
    group: PodGroupState, demands: Sequence[WaitingDemand], snapshot: Snapshot
) -> Generator[None, None, WaitingGroup]:
    """Return a group with those of its demands that wait; its other pods count as served if they have what they need. Yields where others may run."""

    def is_allocated(claim: Claim) -> bool:
        return snapshot.allocation(claim) is not None or is_others(claim, snapshot)

    waiting = {each.uid for demand in demands for each in demand.pods}
    served, pace = 0, Pace()
    for each in group.pods:
        if each.uid not in waiting:
            served += has_all(each, snapshot, is_allocated)
            if pace.rests():
                yield
    return WaitingGroup(group, tuple(demands), served)


def is_current_group(group: WaitingGroup, snapshot: Snapshot) -> bool:
    """Say whether a group still waits as it did when the queue was made."""
    return all(is_current(demand, snapshot) for demand in group.demands) and all(
        snapshot.pods.get(pod.uid) is pod for pod in group.pod_group.pods
    )


def key_of(queued: Queued) -> str:
    """Return what stays the same as long as the same claims wait."""
    return queued.demand.key if isinstance(queued, CrossGroupDemand) else queued.key


def first_of(queued: Queued) -> WaitingDemand | None:
    """Return the demand that gives what is decided at once its place in the queue; None: it has none of its own."""
    return next(iter(demands_of(queued)), None)


def _index(demand: WaitingDemand) -> tuple[int, ...]:
    """Return the first index among the pods of a demand; a group without indexes keeps its order."""
    return min((pod.group.index for pod in demand.pods if pod.group is not None), default=())


def demands_of(queued: Queued) -> tuple[WaitingDemand, ...]:
    """Return the demands of what is decided at once."""
    match queued:
        case WaitingGroup():
            return queued.demands
        case CrossGroupDemand():
            return (queued.demand,)
        case _:
            return (queued,)


def group_of(pod: Pod, snapshot: Snapshot) -> PodGroupState | None:
    """Return the group of a pod; None for a pod of no group."""
    if pod.group is None:
        return None
    members = snapshot.pods_of(snapshot.pod_index.members(pod.namespace, pod.group.name))
    pods = tuple(
        sorted(
            (each for each in members if each.phase != "Failed" and not each.deleting),
            key=lambda each: (each.created, each.name),
        )
    )
    said = _with_workers([(each, each.group) for each in pods if each.group is not None])
    flaw = next(_flaws(said), "")
    first = said[0][1] if said else pod.group
    least, topology = first.least, first.topology
    if first.native and not flaw:
        found = snapshot.pod_index.groups.get((pod.namespace, first.name.removeprefix(NATIVE)))
        if found is None:
            flaw = f"pod {pod.name}: spec.schedulingGroup.podGroupName: PodGroup {first.name.removeprefix(NATIVE)} does not exist"
        else:
            least = found.least
            topology = GroupTopology(found.topology, required=True) if found.topology else topology
    if flaw:
        return PodGroupState(pod.namespace, first.name, pods, 0, flaw=flaw)
    return PodGroupState(pod.namespace, first.name, pods, least, first.most, topology)


def least_of(pod: Pod, snapshot: Snapshot) -> int:
    """Return how many pods the group of a pod needs at once, as the pod says it, or the PodGroup object; 0: it is in none, or in one that needs no number of pods."""
    if pod.group is None or not pod.group.native:
        return pod.group.least if pod.group is not None else 0
    found = snapshot.pod_index.groups.get((pod.namespace, pod.group.name.removeprefix(NATIVE)))
    return found.least if found is not None and found.least > 1 else 0


def _with_workers(said: list[tuple[Pod, GroupMembership]]) -> list[tuple[Pod, GroupMembership]]:
    """Return what pods say of their group; what a leader says that goes first holds only as long as it has no workers."""
    workers = next((own for _, own in said if not own.goes_first), None)
    if workers is None:
        return said
    return [(pod, replace(own, least=workers.least) if own.goes_first else own) for pod, own in said]


def _flaws(said: Sequence[tuple[Pod, GroupMembership]]) -> Iterator[str]:
    """Yield what is wrong with what the pods of a group say: each names a pod, an annotation and the reason."""
    for pod, own in said:
        if own.flaw:
            yield f"pod {pod.name}: {own.flaw}"
    for pod, own in said[1:]:
        first, others = said[0]
        for annotation, here, there in (
            (own.size_at, own.least, others.least),
            (MOST, own.most, others.most),
            (TOPOLOGY, own.topology, others.topology),
        ):
            if here != there:
                yield (
                    f"pod {pod.name}: metadata.annotations[{annotation}] is {_said(here)}, and {_said(there)} on pod"
                    f" {first.name}: all pods of a group have to say the same"
                )


def _said(value: int | GroupTopology | None) -> str:
    if isinstance(value, GroupTopology):
        return f"{value.label} ({'Required' if value.required else 'Preferred'})"
    return "missing" if value is None else str(value)


def has_all(pod: Pod, snapshot: Snapshot, has: Callable[[Claim], bool]) -> bool:
    """Say whether a pod is bound, has succeeded, or is ready with claims for which `has` is true."""
    if pod.node is not None or pod.phase == "Succeeded":
        return True
    if not ready(pod):
        return False
    claims = claims_of(pod, snapshot)
    return claims is not None and all(has(claim) for claim in claims)
