"""The figures of a run, as the data set defines them.

In: arrivals in order. Out: allocation in % at each checkpoint of arrived demand, and where the first pod was dropped.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import fmean

from bench.openb.replay import Arrival

CHECKPOINTS = (95, 100, 130)


@dataclass(slots=True)
class Figures:
    """The figures of one run."""

    allocation: dict[int, float]
    """Checkpoint (arrived, % of the capacity) -> allocated, % of the capacity, mean over the arrivals at it."""
    first_drop: float | None
    """Arrived, % of the capacity, when the first pod found no node; None: none was dropped."""
    dropped: Counter[int] = field(default_factory=Counter)
    """Requested devices -> dropped pods."""


def measure(arrivals: Iterable[Arrival], capacity: int) -> Figures:
    """Compute the figures of a whole run. `capacity`: milli of all devices."""
    arrived = allocated = 0
    buckets: defaultdict[int, list[float]] = defaultdict(list)
    figures = Figures({}, None)
    for arrival in arrivals:
        arrived += arrival.total_milli
        if arrival.placed:
            allocated += arrival.total_milli
        else:
            figures.dropped[arrival.request.devices] += 1
            if figures.first_drop is None:
                figures.first_drop = 100 * arrived / capacity
        # Python rounds half to even, as the published figures do.
        buckets[round(100 * arrived / capacity)].append(round(100 * allocated / capacity, 2))
    figures.allocation = {at: fmean(values) for at, values in sorted(buckets.items())}
    return figures
