"""ChargedCounters: what devices take of the counters of their pools is written with their allocation (ADR 45).

In: an allocation whose devices are held. Out: the allocation as it is written.
"""

from apportion.allocator.allocationresult import MOST_CONFIGS
from apportion.cluster.snapshot import Snapshot
from apportion.dra.allocation import Allocation, ConfigResult
from apportion.dra.consumedcounters import SOURCE, written


def with_counters(allocation: Allocation, snapshot: Snapshot) -> Allocation:
    """Return the allocation with what its devices take of counters; our own agents publish a device as long as a claim has it, so theirs are left out."""
    taken = [
        (each.device, amounts)
        for each in allocation.results
        if each.device.driver not in snapshot.drivers
        and not each.admin_access
        and (amounts := snapshot.state.charged(each.device))
    ]
    if not taken:
        return allocation
    said = written(taken, MOST_CONFIGS - len(allocation.config))
    return allocation._replace(
        config=(*allocation.config, *(ConfigResult(SOURCE, (), opaque) for opaque in said))
    )
