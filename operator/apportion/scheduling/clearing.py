"""Allocations to clear: overlapping ones, and ours that no pod has reserved and no live pod names.

In: the snapshot, the clock. Out: overlaps, each with the claim whose allocation is cleared; claims whose allocation is unused.
Nothing in Kubernetes prevents two claims from naming one device (dra.md 4.5), so the snapshot is checked in every pass.
controller-manager deallocates only what was once reserved, so an allocation whose pod was deleted before it was scheduled
would stay for ever.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from apportion.cluster.publishedpartition import published_partition
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId
from apportion.scheduling.waiting import immediate


@dataclass(frozen=True, slots=True)
class Overlap:
    """One device or counter set, and the claims that use more of it than there is."""

    what: str
    """The device, or the counter, for people."""
    claims: tuple[Claim, ...]
    """In order of precedence: the first keeps its allocation."""

    @property
    def loser(self) -> Claim | None:
        """The claim whose allocation is cleared: the latest that no pod has reserved; None when all are reserved."""
        free = [claim for claim in self.claims[1:] if not claim.reserved_for]
        if free:
            return free[-1]
        return self.claims[0] if not self.claims[0].reserved_for else None


def overlaps(snapshot: Snapshot) -> list[Overlap]:
    """Return all overlaps of live allocations; assumed ones cannot overlap, the allocator made them."""
    found = [
        Overlap(str(device), _ranked(snapshot, snapshot.claim_index.on_device(device)))
        for device in sorted(snapshot.claim_index.contended)
    ]
    for card, devices in _by_card(snapshot).items():
        short = _overdrawn(snapshot, card, devices) if len(devices) > 1 else None
        if short is not None:
            uids = {uid for device in devices for uid in snapshot.claim_index.on_device(device)}
            found.append(Overlap(f"{card} (counter {short})", _ranked(snapshot, uids)))
    return [overlap for overlap in found if len(overlap.claims) > 1]


def _by_card(snapshot: Snapshot) -> dict[DeviceId, list[DeviceId]]:
    """Group the devices in use by the card whose counters they draw from."""
    found: dict[DeviceId, list[DeviceId]] = {}
    for device in snapshot.claim_index.in_use:
        published = snapshot.devices.published(device)
        if published is None or not published[0].consumes:
            continue
        part = published_partition(published[0])
        found.setdefault(part.card if part is not None else device, []).append(device)
    return found


def _overdrawn(snapshot: Snapshot, card: DeviceId, devices: Iterable[DeviceId]) -> str | None:
    """Return a counter of which the devices use more than an untouched card has."""
    whole = snapshot.devices.published(card)
    if whole is None:
        return None
    left = {name: amount.nano for consumed in whole[0].consumes for name, amount in consumed.counters}
    for device in devices:
        published = snapshot.devices.published(device)
        for consumed in published[0].consumes if published else ():
            for name, amount in consumed.counters:
                left[name] = left.get(name, 0) - amount.nano
    return next((name for name, amount in sorted(left.items()) if amount < 0), None)


def _ranked(snapshot: Snapshot, uids: Iterable[str]) -> tuple[Claim, ...]:
    claims = [snapshot.claims[uid] for uid in uids if uid in snapshot.claims]
    return tuple(sorted((c for c in claims if c.allocation is not None), key=_rank))


def _rank(claim: Claim) -> tuple[bool, bool, str, str]:
    timestamp = claim.allocation.timestamp if claim.allocation else None
    # Reserved ones first, then older ones; a fixed order within the same second.
    return (not claim.reserved_for, timestamp is None, timestamp or "", claim.uid)


class UnusedAllocations:
    """Watches how long allocations stay unused."""

    def __init__(self, clock: Callable[[], float], *, manager: str) -> None:
        """`manager` is our field manager: only what we wrote is cleared."""
        self._clock = clock
        self._manager = manager
        self._since: dict[str, float] = {}

    def due(self, snapshot: Snapshot) -> list[Claim]:
        """Return the claims whose allocation was unused for the policy's unusedTimeout."""
        now = self._clock()
        unreserved = snapshot.claims_of(snapshot.claim_index.unreserved)
        unused = {claim.uid: claim for claim in unreserved if self._is_unused(claim, snapshot)}
        self._since = {uid: self._since.get(uid, now) for uid in unused}
        return [
            claim
            for uid, claim in unused.items()
            if claim.deleting
            or now - self._since[uid] >= snapshot.managed.policy(claim).unused_timeout.total_seconds()
        ]

    def _is_unused(self, claim: Claim, snapshot: Snapshot) -> bool:
        if claim.allocated_by != self._manager:
            return False
        if immediate(claim):
            # Such a claim keeps its devices between pods, until it is deleted.
            return claim.deleting
        return not any(not pod.finished and not pod.deleting for pod in snapshot.users(claim))
