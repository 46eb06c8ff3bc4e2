"""HeldClaims: which claims with devices could give them back.

In: the snapshot, claims. Out: whether we may take a claim's devices back once its pods are gone, and for how long it has had them. Left alone: what another
allocator allocated, claims that are allocated without a pod or reserved for something else than pods, and those that neither their policy nor their quota gives back.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from math import isfinite

from apportion.api.policy import PreemptionMode
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.scheduling.backfill.nodeendings import seconds
from apportion.scheduling.demands.consumers import is_freed_by_its_pods
from apportion.scheduling.preemption.guarantees import Guarantees


@dataclass(frozen=True, slots=True)
class HeldClaims:
    """Reads claims."""

    snapshot: Snapshot
    now: Callable[[], float]
    """Seconds since 1970."""
    manager: str
    """Our field manager: only what we wrote is taken back."""
    guarantees: Guarantees

    def may_be_taken(self, claim: Claim) -> bool:
        """Say whether its policy, or its quota, lets its devices be taken back, and the end of its pods gives them back."""
        ours = claim.allocated_by == self.manager and self.snapshot.managed.owns(claim)
        if not ours or not is_freed_by_its_pods(claim):
            return False
        if not self.goes_by_priority(claim) and not self.guarantees.gives_back(claim.namespace):
            return False
        return all(each.resource == "pods" and not each.api_group for each in claim.reserved_for)

    def goes_by_priority(self, claim: Claim) -> bool:
        """Say whether its policy lets it go for a higher priority."""
        return self.snapshot.managed.policy(claim).preemption.mode is not PreemptionMode.NEVER

    def ends(self, claim: Claim, going: Collection[str] = ()) -> bool:
        """Say whether a claim is about to lose its devices, because all pods that have reserved it are over, end, or are about to (UIDs)."""
        users = [self.snapshot.pods.get(each.uid) for each in claim.reserved_for]
        return bool(users) and all(
            pod is None or pod.deleting or pod.finished or pod.uid in going for pod in users
        )

    def age(self, claims: Iterable[Claim]) -> float:
        """Return for how many seconds all of these claims have had their devices; 0 without any."""
        stamps = [claim.allocation.timestamp if claim.allocation is not None else None for claim in claims]
        return min([self._since(seconds(stamp)) if stamp else 0.0 for stamp in stamps], default=0.0)

    def _since(self, moment: float) -> float:
        # A clock that was ahead may have written a time to come. What nobody can read is infinite.
        return abs(self.now() - moment) if isfinite(moment) else 0.0

    def are_young(self, claims: Collection[Claim]) -> bool:
        """Say whether these claims, which pods have together, have had their devices for less than `minRuntime`."""
        settings = (self.snapshot.managed.policy(claim).preemption for claim in claims)
        return self.age(claims) < max([each.min_runtime.total_seconds() for each in settings], default=0.0)
