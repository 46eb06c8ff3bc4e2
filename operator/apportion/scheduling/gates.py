"""Gates: which pods may go on to the scheduler now.

In: the snapshot. Out: pods from which our gate can be removed. A gate goes only after our own watch has shown the
allocation of every managed claim, without overlap, and (by policy) once the partitions behind it are cut. Pods that
have no managed claim lose the gate at once: admission cannot look into claims.
"""

from collections.abc import Callable, Iterator

from apportion.api.partition import Phase
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod
from apportion.scheduling.waiting import GATE, claims_of

PartitionPhase = Callable[[Claim], Phase | None]
"""The worst phase of the partitions behind a claim; None when it has none."""


def open_gates(snapshot: Snapshot, *, contested: frozenset[str], phase: PartitionPhase) -> Iterator[Pod]:
    """Yield pods whose gate can go; `contested` are the UIDs of claims whose devices overlap."""
    for pod in snapshot.pods_of(snapshot.pod_index.gated):
        if GATE not in pod.gates:
            continue
        claims = claims_of(pod, snapshot)
        if claims is not None and all(_served(claim, snapshot, contested, phase) for claim in claims):
            yield pod


def _served(claim: Claim, snapshot: Snapshot, contested: frozenset[str], phase: PartitionPhase) -> bool:
    manage = snapshot.management
    if not manage.owns(claim):
        # The scheduler's own business; but a class that is not there yet may turn out to be ours (a layout makes it),
        # and a claim that mixes classes can be served by nobody.
        return manage.mixes(claim) is None and not manage.unknown(claim)
    if claim.allocation is None or claim.uid in contested:
        return False
    # Not before the protection of controller-manager's clean-up is in place.
    if not claim.finalizers:
        return False
    return not manage.policy(claim).partitions.wait_for_ready or phase(claim) in (None, Phase.READY)
