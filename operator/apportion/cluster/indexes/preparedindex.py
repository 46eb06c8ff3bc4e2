"""PreparedIndex: on which nodes agents report a claim as prepared, whatever its allocation says.

In: slices and Partitions as they come and go. Out: nodes by claim: by the taint `apportion.dev/held` of a device, by the annotation of that name
of its slice, or by `status.preparedBy` of a Partition.
"""

from collections.abc import Collection, Iterable, Iterator

from apportion.api.contract import HELD
from apportion.api.partition import Partition
from apportion.dra.slice import Slice


class PreparedIndex:
    """Nodes by the UID of a claim."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[str, str]] = {}
        """By claim, then by the UID of the slice or Partition that reports it."""

    def put_slice(self, uid: str, old: Slice | None, new: Slice | None) -> Collection[str]:
        """Replace a slice; returns the claims of which it reports something else. `old` None: it is new; `new` None: it is deleted."""
        before, after = ((claim for _, claim in held(found)) for found in (old, new))
        return self._put(uid, before, after, new.availability.node if new is not None else None)

    def put_partition(self, uid: str, old: Partition | None, new: Partition | None) -> Collection[str]:
        """Replace a Partition; returns the claims of which it reports something else. `old` None: it is new; `new` None: it is deleted."""
        before = old.status.prepared_by if old is not None else ()
        after = new.status.prepared_by if new is not None else ()
        return self._put(uid, before, after, new.spec.node_name if new is not None else None)

    def nodes(self, claim: str) -> frozenset[str]:
        """Return the nodes on which a claim (UID) is prepared, as far as agents have reported."""
        return frozenset(self._nodes.get(claim, {}).values())

    def _put(
        self, uid: str, before: Iterable[str], after: Iterable[str], node: str | None
    ) -> Collection[str]:
        former, now = {*before}, {*after} if node else set[str]()
        for claim in former:
            reported = self._nodes.get(claim, {})
            reported.pop(uid, None)
            if not reported:
                self._nodes.pop(claim, None)
        for claim in now:
            self._nodes.setdefault(claim, {})[uid] = str(node)
        return former ^ now


def held(found: Slice | None) -> Iterator[tuple[str, str]]:
    """Yield the devices (by name) that are still prepared for a claim that has lost them, each with the UID of that claim."""
    if found is None:
        return
    for device in found.devices:
        for taint in device.taints:
            if taint.key == HELD and taint.value:
                yield device.name, taint.value
    for entry in str(found.annotations.get(HELD, "")).split():
        name, _, claim = entry.partition("/")
        if claim:
            yield name, claim
