"""RunningGroups: the groups of pods that have devices: how many of their pods may go, and what keeps all of them.

In: the snapshot, pods that go already. Out: for a pod its group as it is once these are gone. A group that would be left with fewer pods than it needs goes as a whole, on all nodes,
so each of its pods has to be one that may go.
"""

from collections.abc import Collection
from dataclasses import dataclass

from apportion.allocator.preemption.victims import LEAVING
from apportion.dra.pod import Pod
from apportion.scheduling.demands.groups import least_of
from apportion.scheduling.preemption.eligibility import Holder
from apportion.scheduling.preemption.heldclaims import HeldClaims


@dataclass(frozen=True, slots=True)
class RunningGroup:
    """The pods of a group that run, without those that go already."""

    key: str
    whole: Holder
    """All of these pods, on all nodes, with their claims."""
    spare: int
    """How many of them may go before all have to."""
    lost: int
    """Seconds that they have had their devices, summed."""
    takeable: bool
    """Whether each pod has claims, and all that these have could be taken back."""
    young: bool
    """Whether some pod has had its devices for less than `minRuntime`."""


class RunningGroups:
    """Groups, each read once."""

    def __init__(self, held: HeldClaims, going: Collection[str]) -> None:
        """`going`: pods (UIDs) that are being evicted, though the watch may not show it yet."""
        self._held = held
        self._going = going
        self._known: dict[str, RunningGroup] = {}

    def stays(self, pod: Pod) -> bool:
        """Say whether a pod neither is over, nor ends, nor is about to."""
        return not pod.deleting and not pod.finished and pod.uid not in self._going

    def of(self, pod: Pod) -> RunningGroup | None:
        """Return the group of a pod; None: it is in none, or in one that needs no number of pods."""
        if pod.group is None or not least_of(pod, self._held.snapshot):
            return None
        key = f"{pod.namespace}/{pod.group.name}"
        if key not in self._known:
            uids = self._held.snapshot.pod_index.members(pod.namespace, pod.group.name)
            found = self._held.snapshot.pods_of(uids)
            self._known[key] = self._read(
                key, tuple(each for each in found if each.node is not None and self.stays(each))
            )
        return self._known[key]

    def _read(self, key: str, pods: tuple[Pod, ...]) -> RunningGroup:
        held = self._held
        named = [[*held.snapshot.named_claims(pod)] for pod in pods]
        claims = [[claim for claim in own if claim is not None] for own in named]
        together = {claim.uid: claim for own in claims for claim in own}
        least = max([least_of(pod, held.snapshot) for pod in pods], default=0)
        priority = max([pod.priority for pod in pods], default=LEAVING)
        by_priority = all(map(held.goes_by_priority, together.values()))
        return RunningGroup(
            key,
            Holder(tuple(together.values()), pods, priority, by_priority),
            max(0, len(pods) - least),
            sum(int(held.age(own)) for own in claims),
            all(own and None not in own for own in named) and all(map(held.may_be_taken, together.values())),
            any(map(held.are_young, claims)),
        )
