"""ClaimIndex: claims by name, by state and by device.

In: claims as they come and go. Out: the few that a pass has to look at, and how many claims wait and are served, without
going through all of them.
"""

from collections import Counter
from collections.abc import Collection

from apportion.allocator.changelog import ChangeLog
from apportion.cluster.changes import most_changes
from apportion.dra.allocation import Allocation
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId


class ClaimIndex:
    """UIDs of claims by state, name and device."""

    def __init__(self) -> None:
        self.unallocated: set[str] = set()
        """Without an allocation, and not being deleted."""
        self.allocated: set[str] = set()
        self.leaving: set[str] = set()
        """Being deleted."""
        self.changes: ChangeLog[str] = ChangeLog()
        """Claims that were seen with a new allocation."""
        self.contended: set[DeviceId] = set()
        """Devices that more than one live allocation has for itself."""
        self._names: dict[tuple[str, str], str] = {}
        self._on_device: dict[DeviceId, dict[str, bool]] = {}
        """By claim, whether it has the device for itself."""
        self._counts: Counter[tuple[frozenset[str], bool]] = Counter()
        """By the classes that the claims name, and whether they are allocated."""

    def put(self, uid: str, old: Claim | None, new: Claim | None) -> None:
        """Replace a claim. `old` None: it is new; `new` None: it is deleted."""
        if old is not None and new is None and self._names.get((old.namespace, old.name)) == uid:
            del self._names[old.namespace, old.name]
        if new is not None:
            self._names[new.namespace, new.name] = uid
        allocated = new is not None and new.allocation is not None
        for uids, belongs in (
            (self.unallocated, new is not None and not allocated and not new.deleting),
            (self.allocated, allocated),
            (self.leaving, new is not None and new.deleting),
        ):
            uids.add(uid) if belongs else uids.discard(uid)
        # Claims with equal requests have the same slots, which is quicker to compare than classes.
        before = (old.slots, old.allocation is not None) if old is not None else None
        if old is None or new is None or before != (new.slots, allocated):
            self._count(old, -1)
            self._count(new, 1)
        if new is not None and allocated and (old is None or old.allocation != new.allocation):
            self.changes.add(uid, most=most_changes(len(self._names)))

    def move(self, uid: str, before: Allocation | None, after: Allocation | None) -> None:
        """Replace the allocation of a claim in the index by device."""
        for result in before.results if before else ():
            holders = self._on_device.get(result.device, {})
            holders.pop(uid, None)
            if not holders:
                self._on_device.pop(result.device, None)
            self._contend(result.device)
        for result in after.results if after else ():
            if not result.admin_access:
                holders = self._on_device.setdefault(result.device, {})
                holders[uid] = holders.get(uid, False) or result.share_id is None
                self._contend(result.device)

    def named(self, namespace: str, name: str) -> str | None:
        """Return the UID of the claim of this name."""
        return self._names.get((namespace, name))

    def on_device(self, device: DeviceId) -> frozenset[str]:
        """Return the claims whose live allocation has the device for itself."""
        holders = self._on_device.get(device)
        return frozenset(uid for uid, alone in holders.items() if alone) if holders else frozenset()

    def holders(self, device: DeviceId) -> Collection[str]:
        """Return the claims whose live allocation names the device or a share of it, for other than admin access."""
        return self._on_device.get(device, {}).keys()

    def counts(self, classes: frozenset[str]) -> tuple[int, int]:
        """Return how many claims that name one of these classes are without an allocation, and how many have one."""
        found = [0, 0]
        for (named, allocated), count in self._counts.items():
            if named & classes:
                found[allocated] += count
        return found[0], found[1]

    def _count(self, claim: Claim | None, sign: int) -> None:
        if claim is not None:
            key = claim.classes, claim.allocation is not None
            self._counts[key] += sign
            if not self._counts[key]:
                del self._counts[key]

    def _contend(self, device: DeviceId) -> None:
        holders = self._on_device.get(device, {})
        if len(holders) > 1 and sum(holders.values()) > 1:
            self.contended.add(device)
        else:
            self.contended.discard(device)
