"""Groups: pods that start together or not at all.

In: the snapshot, the demands that wait. Out: demands bundled by group, and how far each group is. A pod counts when it is
served (bound, done, or with all of its claims allocated) or waits for nobody but us; enough of them make the group whole.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from apportion.api.contract import GATE
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod
from apportion.scheduling.waiting import Waiting, claims_of, ready


@dataclass(frozen=True, slots=True)
class Group:
    """One group as its pods describe it."""

    namespace: str
    name: str
    pods: tuple[Pod, ...]
    """Its pods, the oldest first; without those that failed or are going away."""
    least: int
    """How many must get their devices together; 0 with a flaw."""
    flaw: str = ""
    """What is wrong with it, for its users."""

    @property
    def key(self) -> str:
        """`namespace/name`, for people."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Joint:
    """The demands of one group that wait now."""

    group: Group
    demands: tuple[Waiting, ...]
    served: int = 0
    """Pods of the group that have what they need already."""

    @property
    def key(self) -> str:
        """Stays the same as long as the same claims wait and as many are needed."""
        return " ".join(["group", self.group.key, str(self.enough), *(demand.key for demand in self.demands)])

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The group's pods that wait, in the order of their demands."""
        return tuple(pod for demand in self.demands for pod in self.mine(demand))

    def mine(self, demand: Waiting) -> tuple[Pod, ...]:
        """Return the pods of a demand that belong to the group: others may share claims with them."""
        return tuple(
            pod for pod in demand.pods if pod.group is not None and pod.group.name == self.group.name
        )

    @property
    def enough(self) -> int:
        """How many pods more must get their devices now."""
        return max(1, self.group.least - self.served)

    @property
    def whole(self) -> bool:
        """Whether there are enough pods to serve them together."""
        return not self.group.flaw and len(self.pods) >= self.group.least - self.served


@dataclass(frozen=True, slots=True)
class Tangled:
    """A demand whose pods belong to several groups: it cannot be all or nothing for each."""

    demand: Waiting
    groups: tuple[str, ...]


def group_of(pod: Pod, snapshot: Snapshot) -> Group | None:
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
    return Group(pod.namespace, pod.group.name, pods, 0 if flaw else max(sizes, default=0), flaw)


def bundled(demands: Sequence[Waiting], snapshot: Snapshot) -> list[Waiting | Joint | Tangled]:
    """Return the demands in their order; those of a group are one, where the first of them stood."""
    found: list[Waiting | Tangled | Pod] = []
    parts: dict[tuple[str, str], list[Waiting]] = {}
    tangled: set[tuple[str, str]] = set()
    for demand in demands:
        members = {pod.group.name: pod for pod in demand.pods if pod.group is not None}
        if not members:
            found.append(demand)
        elif len(members) > 1:
            found.append(Tangled(demand, tuple(sorted(members))))
            tangled |= {(pod.namespace, name) for name, pod in members.items()}
        else:
            [(name, pod)] = members.items()
            if (pod.namespace, name) not in parts:
                found.append(pod)
            parts.setdefault((pod.namespace, name), []).append(demand)
    # Pods that have their devices and still wait for others of their group, of which none asks for anything now.
    for pod in snapshot.pods_of(sorted(snapshot.pod_index.gated)):
        key = (pod.namespace, pod.group.name) if pod.group is not None and GATE in pod.gates else None
        if key is not None and key not in parts and key not in tangled:
            parts[key] = []
            found.append(pod)
    every = [_joint(each, parts, snapshot) if isinstance(each, Pod) else each for each in found]
    return [each for each in every if not isinstance(each, Joint) or each.demands or not each.whole]


def alone(bundles: Sequence[Waiting | Joint | Tangled]) -> list[Waiting]:
    """Return those at the end of the queue that belong to no group, in order."""
    found: list[Waiting] = []
    for each in reversed(bundles):
        if not isinstance(each, Waiting):
            break
        found.append(each)
    return found[::-1]


def joints(bundles: Iterable[Waiting | Joint | Tangled]) -> list[Joint]:
    """Return the groups among them."""
    return [each for each in bundles if isinstance(each, Joint)]


def _joint(pod: Pod, parts: dict[tuple[str, str], list[Waiting]], snapshot: Snapshot) -> Joint:
    group = group_of(pod, snapshot)
    if group is None:
        raise TypeError(f"pod {pod.key} is of no group")
    demands = tuple(parts[group.namespace, group.name])
    waiting = {each.uid for demand in demands for each in demand.pods}
    others = [each for each in group.pods if each.uid not in waiting]
    return Joint(group, demands, sum(has_all(each, snapshot, _allocated(snapshot)) for each in others))


def _allocated(snapshot: Snapshot) -> Callable[[Claim], bool]:
    return lambda claim: not snapshot.management.owns(claim) or snapshot.allocation(claim) is not None


def has_all(pod: Pod, snapshot: Snapshot, has: Callable[[Claim], bool]) -> bool:
    """Say whether a pod has what it needs of us: it got so far once, or each of its claims has what `has` asks for."""
    if pod.node is not None or pod.phase == "Succeeded":
        return True
    if not ready(pod):
        return False
    claims = claims_of(pod, snapshot)
    return claims is not None and all(has(claim) for claim in claims)
