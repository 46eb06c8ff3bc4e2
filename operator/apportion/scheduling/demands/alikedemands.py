"""AlikeDemands: refused demands that are asked for by the first of them.

In: demands, with their places in the queue. Out: the first. All the others are refused as it is.
"""

from bisect import bisect_left
from dataclasses import dataclass, field

from apportion.scheduling.demands.waiting import Row, WaitingDemand


@dataclass(slots=True, eq=False)
class AlikeDemands:
    """Refused demands of one shape, namespace and priority: the first of them is asked for all."""

    shape: object
    rows: list[Row] = field(default_factory=list)
    """In order."""
    demands: list[WaitingDemand] = field(default_factory=list)
    """Those of the rows."""

    def add(self, row: Row) -> None:
        """Add a demand in its place."""
        at = bisect_left(self.rows, row)
        self.rows.insert(at, row)
        self.demands.insert(at, row[1])

    def remove(self, row: Row) -> None:
        """Remove a demand."""
        at = bisect_left(self.rows, row)
        del self.rows[at], self.demands[at]
