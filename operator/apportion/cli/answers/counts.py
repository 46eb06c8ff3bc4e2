"""How many claims have their devices, how many wait, and how many nobody serves as they are.

In: a snapshot, the demands that wait in it. Out: three numbers.
"""

from collections.abc import Sequence

from apportion.cluster.snapshot import Snapshot
from apportion.scheduling.demands.waiting import Unservable, WaitingDemand


def counts_of(
    snapshot: Snapshot, waiting: Sequence[WaitingDemand], unservable: Sequence[Unservable]
) -> dict[str, int]:
    """Return the numbers by name."""
    return {
        "served": sum(claim.allocation is not None for claim in snapshot.claims.values()),
        "waiting": sum(len(demand.claims) for demand in waiting),
        "unservable": len(unservable),
    }
