"""Holders: who has which device.

In: a snapshot. Out: a row for each device of each live allocation, and for each device that an agent still has prepared for a claim
that lost it (taint `apportion.dev/held`).
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from apportion.api.contract import HELD
from apportion.cluster.snapshot import Snapshot
from apportion.dra.device import DeviceId


@dataclass(frozen=True, slots=True)
class Holder:
    """One claim that has one device, or a share of it."""

    device: DeviceId
    card: DeviceId
    """The device that it is cut from, or itself."""
    node: str
    """Of the allocation; empty where several nodes could use it."""
    claim: str
    """`namespace/name`; of a claim that is gone its UID."""
    pods: tuple[str, ...]
    """`namespace/name` of the pods that name the claim and have not ended."""
    consumed: str = ""
    """Of a share, what it consumes."""
    note: str = ""
    """What is unusual about it."""

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self) | {"device": str(self.device), "card": str(self.card), "pods": [*self.pods]}


def holders(snapshot: Snapshot) -> Iterator[Holder]:
    """Yield who has what, by node and device."""
    found = [*_allocated(snapshot), *_still_prepared(snapshot)]
    yield from sorted(found, key=lambda each: (each.node, each.device, each.claim))


def _allocated(snapshot: Snapshot) -> Iterator[Holder]:
    for claim in snapshot.claims.values():
        allocation = claim.allocation
        for result in allocation.results if allocation is not None else ():
            yield Holder(
                result.device,
                snapshot.devices.card(result.device),
                (allocation.node if allocation is not None else None) or "",
                claim.key,
                tuple(pod.key for pod in snapshot.users(claim) if not pod.finished),
                ", ".join(f"{name} {amount}" for name, amount in result.consumed.items() if amount.nano),
                "admin access" if result.admin_access else "",
            )


def _still_prepared(snapshot: Snapshot) -> Iterator[Holder]:
    for piece in snapshot.slices.values():
        for device in piece.devices:
            for taint in device.taints:
                if taint.key == HELD and taint.value:
                    claim = snapshot.claims.get(taint.value)
                    yield Holder(
                        device.id,
                        snapshot.devices.card(device.id),
                        piece.availability.node or "",
                        claim.key if claim is not None else taint.value,
                        (),
                        note="still prepared, though the claim has lost it",
                    )
