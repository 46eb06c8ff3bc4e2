"""InProgress: what preemptions do for others while victims are searched for one."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from apportion.allocator.decision import Decision
from apportion.cluster.snapshot import Snapshot
from apportion.dra.node import Resources
from apportion.dra.pod import Pod
from apportion.scheduling.demands.podneeds import total
from apportion.scheduling.demands.waiting import WaitingDemand


@dataclass(frozen=True, slots=True)
class InProgress:
    """What is being done for others."""

    ahead: Sequence[WaitingDemand] = ()
    """Demands that are about to get devices."""
    going: Collection[str] = ()
    """Pods (UIDs) that are being evicted for them."""
    promised: Sequence[tuple[WaitingDemand, Decision]] = ()
    """What is kept for them, node by node."""
    pods: Mapping[str, tuple[Pod, str]] = field(default_factory=dict)
    """Their pods by UID, each with its node."""
    room: Mapping[str, Resources] = field(default_factory=dict)
    """What these request, by node."""


def in_progress(
    ahead: Sequence[WaitingDemand],
    going: Collection[str],
    kept: Iterable[tuple[WaitingDemand, Decision]],
    snapshot: Snapshot,
) -> InProgress:
    """Return what is being done; `kept`: what each of some demands is to get, of which those count that have nothing yet."""
    promised = [
        (demand, decision)
        for demand, decision in kept
        for claim in snapshot.claims_of([demand.claims[0].uid])
        if snapshot.allocation(claim) is None
    ]
    pods = {
        pod.uid: (pod, decision.node)
        for demand, decision in promised
        for pod in snapshot.pods_of([pod.uid for pod in demand.pods])
        if pod.node is None
    }
    room: dict[str, Counter[str]] = {}
    for pod, node in pods.values():
        room.setdefault(node, Counter()).update(total([pod]))
    return InProgress(ahead, going, promised, pods, room)
