"""ClaimIndex: claims by name, by state and by device.

In: claims as they come and go. Out: the few that a pass has to look at, without going through all of them.
"""

from collections.abc import Iterator

from apportion.dra.allocation import Allocation
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId


class ClaimIndex:
    """UIDs of claims by state, allocator, name and device."""

    def __init__(self) -> None:
        self.unallocated: set[str] = set()
        """Without an allocation, and not being deleted."""
        self.allocated: set[str] = set()
        self.unreserved: set[str] = set()
        """Allocated, and not reserved."""
        self.leaving: set[str] = set()
        """Being deleted."""
        self.by_allocator: dict[str, set[str]] = {}
        """By the field manager that wrote the allocation."""
        self._names: dict[tuple[str, str], str] = {}
        self._on_device: dict[DeviceId, set[str]] = {}

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
            (self.unreserved, new is not None and allocated and not new.reserved_for),
            (self.leaving, new is not None and new.deleting),
        ):
            uids.add(uid) if belongs else uids.discard(uid)
        if old is not None and old.allocation is not None:
            self.by_allocator.get(old.allocated_by, set()).discard(uid)
        if new is not None and allocated:
            self.by_allocator.setdefault(new.allocated_by, set()).add(uid)

    def move(self, uid: str, before: Allocation | None, after: Allocation | None) -> None:
        """Replace the allocation of a claim in the index by device."""
        for result in before.results if before else ():
            uids = self._on_device.get(result.device, set())
            uids.discard(uid)
            if not uids:
                self._on_device.pop(result.device, None)
        for result in after.results if after else ():
            if not result.admin_access and result.share_id is None:
                self._on_device.setdefault(result.device, set()).add(uid)

    def named(self, namespace: str, name: str) -> str | None:
        """Return the UID of the claim of this name."""
        return self._names.get((namespace, name))

    def on_device(self, device: DeviceId) -> frozenset[str]:
        """Return the claims whose live allocation names the device."""
        return frozenset(self._on_device.get(device, ()))

    @property
    def in_use(self) -> Iterator[DeviceId]:
        """Yield every device that a live allocation has for itself."""
        return iter(self._on_device)

    @property
    def contended(self) -> Iterator[DeviceId]:
        """Yield devices that more than one live allocation names."""
        return (device for device, uids in self._on_device.items() if len(uids) > 1)
