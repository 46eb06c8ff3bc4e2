"""TiedClaims: allocated claims that bind a waiting demand to a node.

In: a refused demand. Out: clears of its allocations on a node that cannot serve the rest of it, written in the background.
"""

from apportion.cluster.snapshot import Snapshot
from apportion.dra.pod import Pod
from apportion.scheduling.demands.consumers import is_taken_up
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.room.sharing import fits_alone
from apportion.scheduling.writing.backgroundwrites import BackgroundWrites


class TiedClaims:
    """Clears what ties a refused demand to its node."""

    def __init__(self, snapshot: Snapshot, writes: BackgroundWrites, *, manager: str) -> None:
        """`manager` is our field manager: only what we wrote is cleared."""
        self._snapshot = snapshot
        self._writes = writes
        self._manager = manager

    def clear(self, demand: WaitingDemand) -> None:
        """Clear allocations that tie a demand to a node that cannot serve the rest of it, unless a pod has taken them up."""
        own = {pod.uid for pod in demand.pods}
        for claim in demand.tied:
            taken_up = is_taken_up(claim, self._snapshot)
            if claim.allocation is not None and not taken_up and claim.allocated_by == self._manager:
                others = (pod for pod in self._snapshot.users(claim) if pod.uid not in own)
                if not any(self._is_served(pod) for pod in others):
                    self._writes.clear(claim, "the pod's other claims cannot be served on its node", "untied")

    def _is_served(self, pod: Pod) -> bool:
        """Say whether a live pod is bound, or has all of its claims and fits on their node."""
        if pod.finished or pod.deleting:
            return False
        if pod.node is not None:
            return True
        found = [
            self._snapshot.allocation(claim) if claim is not None else None
            for claim in self._snapshot.named_claims(pod)
        ]
        return all(
            each is not None and (each.node is None or fits_alone(pod, each.node, self._snapshot))
            for each in found
        )
