"""Give-back: allocations of ours that nobody reserved and no pod wants.

In: the snapshot, the clock. Out: claims whose allocation should be cleared now. controller-manager deallocates only
what was once reserved, so an allocation whose pod vanished before it was scheduled would stay for ever.
"""

from collections.abc import Callable

from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.scheduling.waiting import immediate


class GiveBack:
    """Watches how long allocations stay unwanted."""

    def __init__(self, clock: Callable[[], float], *, manager: str) -> None:
        """`manager` is our field manager: only what we wrote is given back."""
        self._clock = clock
        self._manager = manager
        self._since: dict[str, float] = {}

    def due(self, snapshot: Snapshot) -> list[Claim]:
        """Return the claims whose allocation nobody has wanted for the policy's unusedTimeout."""
        now = self._clock()
        unreserved = snapshot.claims_of(snapshot.claim_index.unreserved)
        unwanted = {claim.uid: claim for claim in unreserved if self._unwanted(claim, snapshot)}
        self._since = {uid: self._since.get(uid, now) for uid in unwanted}
        return [
            claim
            for uid, claim in unwanted.items()
            if claim.deleting or now - self._since[uid] >= _timeout(claim, snapshot)
        ]

    def _unwanted(self, claim: Claim, snapshot: Snapshot) -> bool:
        if claim.allocated_by != self._manager:
            return False
        if immediate(claim):
            # Such a claim keeps its devices between pods; only its deletion ends that.
            return claim.deleting
        return not any(not pod.finished and not pod.deleting for pod in snapshot.users(claim))


def _timeout(claim: Claim, snapshot: Snapshot) -> float:
    return snapshot.management.policy(claim).unused_timeout.total_seconds()
