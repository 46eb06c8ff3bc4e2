"""Overlaps: find devices that two live allocations claim, and say who gives way.

In: the snapshot. Out: losers to clear and ties to report. Nothing in Kubernetes prevents two claims from naming one
device (dra.md 4.5), so the picture is checked in every cycle.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId


@dataclass(frozen=True, slots=True)
class Overlap:
    """One device or counter set, and the claims that use more of it than there is."""

    what: str
    """The device, or the counter, for people."""
    claims: tuple[Claim, ...]
    """Winner first."""

    @property
    def loser(self) -> Claim | None:
        """Whose allocation goes: the latest that nobody has reserved; None when all are reserved."""
        free = [claim for claim in self.claims[1:] if not claim.reserved_for]
        if free:
            return free[-1]
        return self.claims[0] if not self.claims[0].reserved_for else None


def overlaps(snapshot: Snapshot) -> list[Overlap]:
    """Return all overlaps of live allocations; assumed ones cannot overlap, the allocator made them."""
    found = [
        Overlap(str(device), _ranked(snapshot, snapshot.on_device(device))) for device in _contended(snapshot)
    ]
    for overdraft in snapshot.state.overdrawn():
        claims = _ranked(snapshot, overdraft.holders)
        if len(claims) > 1:
            found.append(Overlap(f"{overdraft.pool} {overdraft.counter_set}/{overdraft.counter}", claims))
    return [overlap for overlap in found if len(overlap.claims) > 1]


def _contended(snapshot: Snapshot) -> list[DeviceId]:
    return sorted(snapshot.contended)


def _ranked(snapshot: Snapshot, uids: Iterable[str]) -> tuple[Claim, ...]:
    claims = [snapshot.claims[uid] for uid in uids if uid in snapshot.claims]
    return tuple(sorted((c for c in claims if c.allocation is not None), key=_rank))


def _rank(claim: Claim) -> tuple[bool, bool, str, str]:
    timestamp = claim.allocation.timestamp if claim.allocation else None
    # Reserved before free, older before younger, and a fixed order for those of the same second.
    return (not claim.reserved_for, timestamp is None, timestamp or "", claim.uid)
