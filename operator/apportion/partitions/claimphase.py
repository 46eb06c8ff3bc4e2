"""phase_of(): how far the partitions behind a claim are.

In: a claim, the snapshot. Out: the worst phase; None where it needs no partition.
"""

from apportion.api.partition import Phase
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim


def phase_of(claim: Claim, snapshot: Snapshot) -> Phase | None:
    """Return the worst phase of the partitions that the claim's devices need; None when it needs none.

    A whole card needs that none is left on it: an agent prepares it once they have gone.
    """
    worst: Phase | None = None
    devices, ours = snapshot.devices, snapshot.drivers
    for result in claim.allocation.results if claim.allocation else ():
        partition = devices.partition(result.device, claim.uid)
        if partition is None:
            needs = devices.leaving(result) or devices.published_partition(result.device)
            if needs and result.device.driver in ours:
                return Phase.PENDING
            continue
        holder = partition.spec.holder
        own = holder is not None and (holder.uid == claim.uid or holder.kind.endswith("Layout"))
        if not (own or result.admin_access):
            return Phase.PENDING
        current = partition.status.phase or Phase.PENDING
        # A reused partition stays Idle until the agent has seen its new holder; it is cut all the same.
        current = Phase.READY if current == Phase.IDLE else current
        if worst is None or current != Phase.READY:
            worst = current
    return worst
