"""UnusedAllocations: allocations of ours that no pod has reserved and no live pod names.

In: the snapshot, the clock. Out: claims whose allocation should be cleared now. controller-manager deallocates only
what was once reserved, so an allocation whose pod was deleted before it was scheduled would stay for ever.
"""

from collections.abc import Callable

from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.scheduling.waiting import immediate


class UnusedAllocations:
    """Watches how long allocations stay unused."""

    def __init__(self, clock: Callable[[], float], *, manager: str) -> None:
        """`manager` is our field manager: only what we wrote is cleared."""
        self._clock = clock
        self._manager = manager
        self._since: dict[str, float] = {}

    def due(self, snapshot: Snapshot) -> list[Claim]:
        """Return the claims whose allocation was unused for the policy's unusedTimeout."""
        now = self._clock()
        unreserved = snapshot.claims_of(snapshot.claim_index.unreserved)
        unused = {claim.uid: claim for claim in unreserved if self._is_unused(claim, snapshot)}
        self._since = {uid: self._since.get(uid, now) for uid in unused}
        return [
            claim
            for uid, claim in unused.items()
            if claim.deleting
            or now - self._since[uid] >= snapshot.managed.policy(claim).unused_timeout.total_seconds()
        ]

    def _is_unused(self, claim: Claim, snapshot: Snapshot) -> bool:
        if claim.allocated_by != self._manager:
            return False
        if immediate(claim):
            # Such a claim keeps its devices between pods, until it is deleted.
            return claim.deleting
        return not any(not pod.finished and not pod.deleting for pod in snapshot.users(claim))
