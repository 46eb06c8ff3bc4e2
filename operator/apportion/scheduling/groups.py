"""Pod groups: pods that start together or not at all.

In: the snapshot. Out: what its pods say of a group, and how far it is. A pod counts when it is
served (bound, succeeded, or with all of its claims allocated) or when only our gate holds it back; a group with enough of
them is whole.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod
from apportion.scheduling.waiting import WaitingDemand, claims_of, ready


@dataclass(frozen=True, slots=True)
class PodGroupState:
    """One group as its pods describe it."""

    namespace: str
    name: str
    pods: tuple[Pod, ...]
    """Its pods, the oldest first; without those that failed or are being deleted."""
    least: int
    """How many must get their devices together; 0 with a flaw."""
    flaw: str = ""
    """What is wrong with its labels and annotations, for its users."""

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
    said = [(each, each.group) for each in pods if each.group is not None]
    flaw = next((f"pod {each.name}: {own.flaw}" for each, own in said if own.flaw), "")
    sizes = {own.least: each for each, own in reversed(said)}
    if not flaw and len(sizes) > 1:
        words = ", ".join(f"{each.name} says {least}" for least, each in sorted(sizes.items()))
        flaw = f"its pods disagree on how many it needs: {words}"
    return PodGroupState(pod.namespace, pod.group.name, pods, 0 if flaw else max(sizes, default=0), flaw)


def has_all(pod: Pod, snapshot: Snapshot, has: Callable[[Claim], bool]) -> bool:
    """Say whether a pod is bound, has succeeded, or is ready with claims for which `has` is true."""
    if pod.node is not None or pod.phase == "Succeeded":
        return True
    if not ready(pod):
        return False
    claims = claims_of(pod, snapshot)
    return claims is not None and all(has(claim) for claim in claims)
