"""StillPrepared: claims whose former allocation counts for others although they were deallocated (ADRs 0010, 0015).

In: deallocations, what agents report, the clock. Out: the nodes that a claim has to avoid for now; whether a pod may be
bound by the claim's former allocation. kubelet prepares a
claim once for all pods that use it: where containers of its former pod still run (the pod was deleted by force), the next
pod would start with the former devices, not with those allocated since (kubelet's dra manager, `isPrepared`).
Where the claim was deleted, too, and made anew under its name, kubelet prepares it for nobody before it has unprepared the former one.
kube-scheduler may be binding a pod without a gate by the allocation that its own watch has shown last: when its write meets
a conflict, it reserves what the claim has by then, and binds the pod to the former node all the same (`bindClaim`).
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Final

from apportion.cluster.assumedallocations import Deallocation
from apportion.cluster.cutoffclaims import PATIENCE
from apportion.cluster.snapshot import Snapshot
from apportion.dra.pod import Pod

BINDING: Final = 5.0
"""Seconds for which kube-scheduler may bind a pod by a former allocation: its watch is late, and its write is under way."""


@dataclass(frozen=True, slots=True)
class _Loss:
    node: str
    pods: frozenset[str]
    until: float


class StillPrepared:
    """Claims whose former containers may still run."""

    def __init__(self, snapshot: Snapshot, clock: Callable[[], float]) -> None:
        self._snapshot = snapshot
        self._clock = clock
        self._lost: OrderedDict[str, tuple[_Loss, ...]] = OrderedDict()
        """By claim, the latest of each node, that of the claim first, in the order in which these end; most are never asked about."""
        self._bound_until: OrderedDict[str, float] = OrderedDict()
        """Until when a pod may be bound by a claim's former allocation, in the same order."""
        self._ended = 0

    def __len__(self) -> int:
        """Return how many losses are remembered."""
        return len(self._lost)

    def note(self, event: Deallocation) -> None:
        """Take note that a claim lost its devices while pods had reserved it, or could be bound by them."""
        node = event.allocation.node
        self._forget()
        if any(self._may_be_bound(pod, event) for pod in self._snapshot.users(event.claim)):
            self._bound_until.pop(event.claim.uid, None)
            self._bound_until[event.claim.uid] = self._clock() + BINDING
        if node is not None and (pods := event.reserved_for | event.former):
            now, former = self._clock(), self._lost.pop(event.claim.uid, ())
            latest = _Loss(node, pods, now + PATIENCE)
            others = (each for each in former if each.node != node and each.until > now)
            self._lost[event.claim.uid] = latest, *others

    def nodes(self, claim: str) -> frozenset[str]:
        """Return the nodes that a claim (UID) has to avoid now, because it is prepared there, or a former one of its name is."""
        self._forget()
        found = self._snapshot.claims.get(claim)
        former = self._snapshot.cut_off.named(found.namespace, found.name) if found is not None else ()
        return frozenset(chain.from_iterable(map(self._nodes, {claim, *former})))

    def _nodes(self, claim: str) -> frozenset[str]:
        """Return where a claim (UID) may be prepared, though it has lost its devices, or is gone."""
        reported = self._snapshot.prepared.nodes(claim)
        lost = self._lost.get(claim)
        if lost is None:
            return reported
        # Looked up only now: the pod's end may be observed after the deallocation of its claim.
        return reported.union(
            each.node for each in lost if any(self._may_run(pod, each.node) for pod in each.pods)
        )

    def may_bind(self, claim: str) -> bool:
        """Say whether a pod may still be bound by the former allocation of a claim (UID)."""
        self._forget()
        return claim in self._bound_until

    def _may_be_bound(self, pod: Pod, event: Deallocation) -> bool:
        free = pod.node is None and not pod.finished and not pod.deleting and not pod.gates
        return free and not event.is_refusal_for(pod.uid)

    def _may_run(self, uid: str, node: str) -> bool:
        pod = self._snapshot.pods.get(uid)
        if pod is None:
            return self._snapshot.pod_index.cut_off(uid)
        return pod.node == node and not pod.finished

    def epoch(self) -> int:
        """Return how much of this has ended by the clock."""
        self._forget()
        return self._ended

    def _forget(self) -> None:
        now = self._clock()
        while self._lost and next(iter(self._lost.values()))[0].until <= now:
            self._lost.popitem(last=False)
            self._ended += 1
        while self._bound_until and next(iter(self._bound_until.values())) <= now:
            self._bound_until.popitem(last=False)
            self._ended += 1
