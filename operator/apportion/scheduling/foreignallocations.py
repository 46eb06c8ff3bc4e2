"""ForeignAllocations: allocations of claims of ours that others wrote.

In: the snapshot. Out: each of these claims once, and all of them anew when other classes are managed. With more than one
allocator for the same devices these can be allocated twice, so each of them gets an Event.
"""

from collections.abc import Iterator

from apportion.cluster.managedclasses import ManagedClasses
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim


class ForeignAllocations:
    """Follows the claims that have an allocation."""

    def __init__(self, snapshot: Snapshot, *, manager: str) -> None:
        """`manager` is our field manager: what it wrote is ours."""
        self._snapshot = snapshot
        self._manager = manager
        self._cursor = -1
        """How far the changes of allocations were read."""
        self._managed: ManagedClasses | None = None

    def new(self) -> Iterator[Claim]:
        """Yield the claims whose allocation others wrote, since the former call."""
        managed, index = self._snapshot.managed, self._snapshot.claim_index
        self._cursor, changed = index.changes.since(self._cursor)
        if managed is not self._managed:
            self._managed, changed = managed, None
        for claim in self._snapshot.claims_of(index.allocated if changed is None else changed):
            others = claim.allocation is not None and claim.allocated_by not in ("", self._manager)
            if others and managed.owns(claim):
                yield claim
