"""What is to be prepared for a claim, and whether a Partition may serve it. Pure: the same claim gives the same plan.

In: a claim's results and the node's cards. Out: the journal's rows of devices, or the reason why not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from apportion.agent.cdi import device_id
from apportion.agent.devices.values import Card, Kind
from apportion.agent.kubelet.claims import ClaimRef
from apportion.agent.lifecycle.wish import Wish
from apportion.agent.rows import ClaimDevice, ClaimRow
from apportion.agent.slices.naming import card_of
from apportion.dra.allocation import DeviceResult
from apportion.errors import NotReady


@dataclass(frozen=True, slots=True)
class Prepared:
    """One device, ready for kubelet."""

    requests: tuple[str, ...]
    pool: str
    device: str
    cdi: str


def plan(
    ref: ClaimRef, results: Sequence[DeviceResult], cards: Mapping[str, Card], kind: Kind
) -> tuple[ClaimDevice, ...]:
    """Return the devices of a claim, each once. Raises NotReady for one that is not on this node."""
    merged: dict[str, ClaimDevice] = {}
    for result in results:
        name = result.device.name
        card = card_of(name, dict(cards))
        if card is None or card.kind is not kind:
            raise NotReady(f"ResourceClaim {ref.key}: device {result.device} does not exist on this node")
        request = result.request.split("/")[0]
        before = merged.get(name)
        merged[name] = ClaimDevice(
            device=name,
            card=card.name,
            pool=result.device.pool,
            # The same device may serve several requests (admin access, shared devices).
            requests=(*before.requests, request) if before else (request,),
            cdi=device_id(result.device.driver, ref.uid, name),
            admin=result.admin_access and (before is None or before.admin),
        )
    return tuple(merged.values())


def unfit(wish: Wish | None, row: ClaimRow, device: ClaimDevice) -> str:
    """Say why a Partition cannot serve a claim, "" when it can."""
    if wish is None:
        return f"no Partition object for device {device.device} is there yet"
    if wish.deleting:
        return f"partition {wish.name} is being removed"
    if wish.origin == "Layout" or device.admin:
        return ""
    if wish.holder is None:
        return f"partition {wish.name} is not assigned to the claim yet"
    if wish.holder.uid != row.uid:
        return f"partition {wish.name} belongs to {wish.holder.namespace}/{wish.holder.name}"
    return ""


def said(wish: Wish) -> str:
    """Return what a Partition's status says of its cut."""
    rows: list[Mapping[str, str]] = list(wish.status.get("conditions") or ())
    ready = next((row for row in rows if row.get("type") == "Ready"), {})
    return f"{wish.status.get('phase', 'Pending')} {ready.get('message', '')}".strip()
