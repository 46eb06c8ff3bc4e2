"""Holders: who has which device.

In: a snapshot, its DeviceHolds. Out: a row for each device of each live allocation, for each device that is held beside allocations or wanted by a layout, and for each
device that an agent still has prepared for a claim that lost it (`apportion.dev/held`).
"""

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from apportion.api.contract import STATIC_SUFFIX
from apportion.api.hold import hold_key
from apportion.api.layout import LAYOUT_HOLD
from apportion.cli.world.holds import Holds, what_for
from apportion.cluster.indexes.preparedindex import held
from apportion.cluster.snapshot import Snapshot
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId

_LOOKS = "admin access"


@dataclass(frozen=True, slots=True)
class Holder:
    """One claim that has one device, or a share of it."""

    device: DeviceId
    card: DeviceId
    """The device that it is cut from, or itself."""
    node: str
    """Of the allocation; empty where several nodes could use it."""
    claim: str
    """`namespace/name`; of a claim that is gone its UID. `DeviceHold NAME` where no claim has it, and it is held for one, or for moves;
    `PartitionLayout NAME` where a layout wants it and has not cut it yet, or gives it up."""
    pods: tuple[str, ...]
    """`namespace/name` of the pods that name the claim and have not ended."""
    consumed: str = ""
    """Of a share, what it consumes."""
    note: str = ""
    """What is unusual about it."""

    @property
    def is_hold(self) -> bool:
        """Whether it is no claim that has the device."""
        return self.claim.startswith((hold_key(""), LAYOUT_HOLD))

    @property
    def occupies(self) -> bool:
        """Whether others cannot have the device because of it: admin access takes nothing."""
        return not self.note.startswith(_LOOKS)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self) | {"device": str(self.device), "card": str(self.card), "pods": [*self.pods]}


def holders(snapshot: Snapshot, holds: Holds, nodes: Collection[str] | None = None) -> Iterator[Holder]:
    """Yield who has what, by node and device; `nodes`: only on these, empty for what several nodes could use."""
    found = [
        *_allocated(snapshot, nodes),
        *_held(snapshot, holds, nodes),
        *_wanted(snapshot, nodes),
        *_still_prepared(snapshot, nodes),
    ]
    yield from sorted(found, key=lambda each: (each.node, each.device, each.claim))


def holders_of(snapshot: Snapshot, holds: Holds, name: str) -> list[Holder] | None:
    """Return who holds the devices of a node, or a device and its parts; None: there is no such node or device.

    A device is named as DEVICE, POOL/DEVICE or DRIVER/POOL/DEVICE.
    """
    if snapshot.node(name) is not None:
        return [*holders(snapshot, holds, (name,))]
    found = [*holders(snapshot, holds)]
    published = (device.id for piece in snapshot.slices.values() for device in piece.devices)
    if not any(_is_named(each.device, name) for each in found) and not any(
        _is_named(device, name) for device in published
    ):
        return None
    return [each for each in found if _is_named(each.device, name) or _is_named(each.card, name)]


def _is_named(device: DeviceId, name: str) -> bool:
    return name in {device.name, f"{device.pool}/{device.name}", str(device)}


def _allocated(snapshot: Snapshot, nodes: Collection[str] | None) -> Iterator[Holder]:
    for claim in snapshot.claims.values():
        allocation = claim.allocation
        if allocation is None or (nodes is not None and (allocation.node or "") not in nodes):
            continue
        pods = tuple(pod.key for pod in snapshot.users(claim) if not pod.finished)
        for result in allocation.results:
            yield Holder(
                result.device,
                snapshot.devices.card(result.device),
                allocation.node or "",
                claim.key,
                pods,
                ", ".join(f"{name} {amount}" for name, amount in result.consumed.items() if amount.nano),
                _unusual(result, snapshot),
            )


def _unusual(result: DeviceResult, snapshot: Snapshot) -> str:
    """Return what is unusual about an allocated device; one that its driver publishes no more stays the claim's."""
    gone = snapshot.devices.device(result.device) is None
    notes = (_LOOKS, result.admin_access), ("in no ResourceSlice any more", gone)
    return ", ".join(note for note, holds in notes if holds)


def _held(snapshot: Snapshot, holds: Holds, nodes: Collection[str] | None) -> Iterator[Holder]:
    held = holds.devices()
    for piece in snapshot.slices.values() if held else ():
        node = piece.availability.node or ""
        if nodes is not None and node not in nodes:
            continue
        for device in piece.devices:
            for hold in held.get(device.id, ()):
                card = snapshot.devices.card(device.id)
                yield Holder(
                    device.id,
                    card,
                    node,
                    hold_key(hold.metadata.name),
                    (),
                    note=f"held {what_for(hold.spec)}",
                )


def _wanted(snapshot: Snapshot, nodes: Collection[str] | None) -> Iterator[Holder]:
    """Yield what layouts want and have not cut yet, and what they give up."""
    for piece in snapshot.slices.values() if snapshot.layouts else ():
        node = piece.availability.node or ""
        if nodes is not None and node not in nodes:
            continue
        for device in piece.devices:
            for key in snapshot.state.holders(device.id):
                if key.startswith(LAYOUT_HOLD):
                    card, layout = snapshot.devices.card(device.id), key.partition(" on ")[0]
                    static = device.name.endswith(STATIC_SUFFIX)
                    note = "given up by it" if static else "wanted by it and not cut yet"
                    yield Holder(device.id, card, node, layout, (), note=note)


def _still_prepared(snapshot: Snapshot, nodes: Collection[str] | None) -> Iterator[Holder]:
    for piece in snapshot.slices.values():
        if nodes is not None and (piece.availability.node or "") not in nodes:
            continue
        for device, uid in held(piece):
            claim = snapshot.claims.get(uid)
            yield Holder(
                device,
                snapshot.devices.card(device),
                piece.availability.node or "",
                claim.key if claim is not None else uid,
                (),
                note="still prepared, though the claim has lost it",
            )
