"""ForeignAllocations: allocations of claims of ours that others wrote.

In: the snapshot. Out: each of these claims once, and all of them anew when other classes are managed. With more than one
allocator for the same devices these can be allocated twice, so each of them gets an Event.
"""

from collections.abc import Callable, Iterator
from functools import partial

from apportion.cluster.managedclasses import ManagedClasses
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.scheduling.pace import Changed


class ForeignAllocations:
    """Follows the claims that have an allocation."""

    def __init__(self, snapshot: Snapshot, *, manager: str) -> None:
        """`manager` is our field manager: what it wrote is ours."""
        self._snapshot = snapshot
        self._manager = manager
        self._cursor = -1
        """How far the changes of allocations were read."""
        self._changed = Changed[str]()
        self._managed: ManagedClasses | None = None

    def steps(self, tell: Callable[[Claim], None]) -> Iterator[None]:
        """Tell the claims whose allocation others wrote, since the former call; yields where others may run."""
        managed, index = self._snapshot.managed, self._snapshot.claim_index
        self._cursor, changed = index.changes.since(self._cursor)
        if managed is not self._managed:
            self._managed, changed = managed, None
        yield from self._changed.steps(
            index.allocated if changed is None else changed, partial(self._look, tell)
        )

    def _look(self, tell: Callable[[Claim], None], uid: str) -> None:
        claim = self._snapshot.claims.get(uid)
        if claim is None or claim.allocation is None or claim.allocated_by in ("", self._manager):
            return
        if self._snapshot.managed.owns(claim):
            tell(claim)
