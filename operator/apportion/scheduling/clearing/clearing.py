"""Allocations to clear: overlapping ones, and ours that no pod has taken up and no live pod names.

In: the snapshot, the clock. Out: overlaps, each with the claim whose allocation is cleared; claims whose
allocation is unused. Nothing in Kubernetes prevents two claims from naming one device (dra.md 4.5), so
the snapshot is checked in every pass, where something changed. controller-manager deallocates only what
was once reserved, so an allocation whose pod was deleted before it was scheduled would stay for ever.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from apportion.allocator.rules.capacity import differing
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId
from apportion.errors import BrokenInput
from apportion.scheduling.demands.consumers import is_out_of_reach, is_taken_up, unbound_user
from apportion.scheduling.demands.followedclaims import FollowedClaims
from apportion.scheduling.demands.waiting import immediate, kept_for
from apportion.scheduling.pace import Pace


@dataclass(frozen=True, slots=True)
class Overlap:
    """One device or counter set, and the claims that use more of it than there is."""

    what: str
    """The device, or the counter, for people."""
    claims: tuple[Claim, ...]
    """In order of precedence: the first keeps its allocation."""
    taken_up: frozenset[str]
    """Those (UIDs) with which a pod may have started."""

    @property
    def untaken(self) -> list[Claim]:
        """The claims with which no pod may have started, in order of precedence: the last one that may be cleared is."""
        return [claim for claim in self.claims if claim.uid not in self.taken_up]


class Overlaps:
    """Follows the cards that change; assumed allocations cannot overlap, the allocator made them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._cursor = -1
        self._overdrawn: dict[DeviceId, str] = {}
        """By card, a counter of which live allocations use more than there is."""
        self._exceeded: dict[DeviceId, str] = {}
        """By device that several claims have, what shares use more of than there is."""

    def find(self) -> list[Overlap]:
        """Return all overlaps of live allocations."""
        snapshot, index = self._snapshot, self._snapshot.claim_index
        self._cursor, changed = snapshot.devices.changes.since(self._cursor)
        if changed is None:
            changed = *snapshot.devices.cards, *snapshot.devices.shareable
        for card in {*changed}:
            used = self._used(card)
            short = _overdrawn(snapshot, card, used) if len(used) > 1 else None
            if short is not None:
                self._overdrawn[card] = short
            else:
                self._overdrawn.pop(card, None)
            exceeded = _exceeded(snapshot, card) if len(index.holders(card)) > 1 else None
            if exceeded is not None:
                self._exceeded[card] = exceeded
            else:
                self._exceeded.pop(card, None)
        found = [
            _overlap(str(device), snapshot, index.on_device(device)) for device in sorted(index.contended)
        ]
        for card, short in sorted(self._overdrawn.items()):
            uids = {uid for device in self._used(card) for uid in index.on_device(device)}
            found.append(_overlap(f"{card} (counter {short})", snapshot, uids))
        shared = [
            _overlap(f"{device} ({what})", snapshot, index.holders(device))
            for device, what in sorted(self._exceeded.items())
        ]
        # A policy may offer less of a device than those have who run with it.
        found += [overlap for overlap in shared if overlap.untaken]
        return [overlap for overlap in found if len(overlap.claims) > 1]

    def _used(self, card: DeviceId) -> list[DeviceId]:
        """Return the devices in use that draw from the counters of a card."""
        parts = self._snapshot.devices.published_partitions(card).values()
        devices = (card, *(part.device.id for part in parts))
        return [device for device in devices if self._snapshot.claim_index.on_device(device)]


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


def _exceeded(snapshot: Snapshot, device: DeviceId) -> str | None:
    """Return what of a device claims use more than there is, if some of them have shares of it: a capacity, or the whole device."""
    published = snapshot.devices.device(device)
    uids = snapshot.claim_index.holders(device)
    whole = snapshot.claim_index.on_device(device)
    if published is None or len(whole) == len(uids):
        return None
    if whole:
        return "the whole device"
    shares = [
        result.consumed
        for claim in snapshot.claims_of(uids)
        for result in (claim.allocation.results if claim.allocation is not None else ())
        if result.device == device and not result.admin_access
    ]
    others = [name for each in shares if (name := differing((each,), published)) is not None]
    if 0 < len(others) < len(shares):
        # Its driver had named its capacities otherwise: those shares hold it as a whole.
        return f"capacity {min(others)}"
    used = Counter[str]()
    for each in shares:
        used.update({name: amount.nano for name, amount in each.items()})
    over = [name for name, capacity in published.capacity.items() if used[name] > capacity.value.nano]
    return f"capacity {min(over)}" if over else None


def _overlap(what: str, snapshot: Snapshot, uids: Iterable[str]) -> Overlap:
    claims = [claim for claim in snapshot.claims_of(uids) if claim.allocation is not None]
    taken_up = frozenset(claim.uid for claim in claims if is_taken_up(claim, snapshot))

    def rank(claim: Claim) -> tuple[bool, bool, str, str]:
        timestamp = claim.allocation.timestamp if claim.allocation else None
        # Those with which a pod may have started first, then older ones; a fixed order within the same second.
        return (claim.uid not in taken_up, timestamp is None, timestamp or "", claim.uid)

    return Overlap(what, tuple(sorted(claims, key=rank)), taken_up)


def keeping(claim: Claim, otherwise: timedelta) -> timedelta:
    """Return how long a claim keeps devices that it does not use; `otherwise`: where it says nothing of it."""
    try:
        said = kept_for(claim)
    except BrokenInput:
        return otherwise  # it changed since it was allocated
    return otherwise if said is None else said


class UnusedAllocations:
    """Watches how long allocations stay unused."""

    def __init__(self, snapshot: Snapshot, clock: Callable[[], float], *, manager: str) -> None:
        """`manager` is our field manager: only what we wrote is cleared."""
        self._snapshot = snapshot
        self._clock = clock
        self._manager = manager
        self._unused = FollowedClaims(snapshot, clock, self._is_unused)

    def begin_anew(self) -> None:
        """Count the time from now on."""
        self._unused.begin_anew()

    def steps(self) -> Iterator[None]:
        """Look at what changed; yields where others may run."""
        return self._unused.steps()

    def due(self) -> Generator[None, None, list[tuple[Claim, str]]]:
        """Return the claims whose allocation was unused for as long as they keep it, else for the policy's unusedTimeout, or can be used no more; and why for people. Yields where others may run."""
        yield from self._unused.steps()
        now, managed = self._clock(), self._snapshot.managed
        found, pace = list[tuple[Claim, str]](), Pace()
        for claim, since in self._unused.items():
            if pace.rests():
                yield
            if is_out_of_reach(claim, self._snapshot):
                found.append((claim, "its pod is bound to another node"))
            elif (
                claim.deleting
                or now - since >= keeping(claim, managed.policy(claim).unused_timeout).total_seconds()
            ):
                found.append((claim, "nobody wants it"))
        # Who was bound meanwhile, say, has changed its claim: that is looked at once more.
        return [row for row in found if self._snapshot.claims.get(row[0].uid) is row[0]]

    def _is_unused(self, claim: Claim) -> bool:
        if claim.allocated_by != self._manager:
            return False
        if is_out_of_reach(claim, self._snapshot):
            return True
        if claim.reserved_for:
            # controller-manager takes it from a pod that is over. A pod whose claim is being deleted cannot start.
            return claim.deleting and unbound_user(claim, self._snapshot) is not None
        if immediate(claim):
            # Such a claim keeps its devices between pods, until it is deleted.
            return claim.deleting
        live = [pod for pod in self._snapshot.users(claim) if not pod.finished and not pod.deleting]
        # A pod whose claim is being deleted cannot start.
        return not any(pod.node is not None or not claim.deleting for pod in live)
