"""StillPrepared: the nodes where a claim may still be prepared although it was deallocated (ADR 0010).

In: deallocations, what agents report, the clock. Out: the nodes that a claim has to avoid for now. kubelet prepares a
claim once for all pods that use it: where containers of its former pod still run (the pod was deleted by force), the next
pod would start with the former devices, not with those allocated since (kubelet's dra manager, `isPrepared`).
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from apportion.cluster.assumedallocations import Deallocation
from apportion.cluster.snapshot import Snapshot

PATIENCE: Final = 25.0
"""Seconds within which an agent has reported what is still prepared: it looks every ten seconds, twice is safe."""


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
        self._lost: OrderedDict[str, _Loss] = OrderedDict()
        """By claim, in the order in which they end; most are never asked about."""

    def __len__(self) -> int:
        """Return how many losses are remembered."""
        return len(self._lost)

    def note(self, event: Deallocation) -> None:
        """Take note that a claim lost its devices while pods had reserved it."""
        node = event.allocation.node
        self._forget()
        if node is not None and event.reserved_for:
            self._lost.pop(event.claim.uid, None)
            self._lost[event.claim.uid] = _Loss(node, event.reserved_for, self._clock() + PATIENCE)

    def nodes(self, claim: str) -> frozenset[str]:
        """Return the nodes that a claim (UID) has to avoid now."""
        self._forget()
        reported = self._snapshot.prepared.nodes(claim)
        lost = self._lost.get(claim)
        if lost is None:
            return reported
        # Looked up only now: the pod's end may be observed after the deallocation of its claim.
        return reported | {lost.node} if any(map(self._may_run, lost.pods)) else reported

    def _may_run(self, uid: str) -> bool:
        pod = self._snapshot.pods.get(uid)
        if pod is None:
            return self._snapshot.pod_index.cut_off(uid)
        return pod.node is not None and not pod.finished

    def epoch(self) -> int:
        """Return how many losses count: it changes when one ends by the clock."""
        self._forget()
        return len(self._lost)

    def _forget(self) -> None:
        now = self._clock()
        while self._lost and next(iter(self._lost.values())).until <= now:
            self._lost.popitem(last=False)
