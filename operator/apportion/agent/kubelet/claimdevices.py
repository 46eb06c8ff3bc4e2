"""What is to be prepared for a claim, and whether a Partition may serve it. Pure: the same claim gives the same plan.

In: a claim's results and the node's cards. Out: the journal's rows of devices, or the reason why not.
"""

from collections.abc import Mapping, Sequence

from apportion.agent.cdi import device_id
from apportion.agent.devices.values import Card, CardKind
from apportion.agent.kubelet.claims import ClaimRef
from apportion.agent.lifecycle.desiredpartitions import is_deleting
from apportion.agent.rows import ClaimDevice, ClaimRow, Share
from apportion.agent.slices.naming import card_of
from apportion.api.partition import Origin, Partition, Phase
from apportion.dra.allocation import DeviceResult
from apportion.dra.quantity import NANO
from apportion.errors import NotReady

_CUT = frozenset({CardKind.GPU, CardKind.NPU})
"""Kinds of cards of which a device may be a partition. The name of a part that is gone may begin with that of another card, too."""


def claim_devices(
    ref: ClaimRef, results: Sequence[DeviceResult], cards: Mapping[str, Card], kind: str
) -> tuple[ClaimDevice, ...]:
    """Return the devices of a claim, each once, and each share of one. Raises NotReady for one that is not on this node."""
    merged: dict[tuple[str, str], ClaimDevice] = {}
    for result in results:
        name = result.device.name
        card = card_of(name, dict(cards))
        if card is None or card.kind != kind or (card.name != name and card.kind not in _CUT):
            raise NotReady(f"ResourceClaim {ref.key}: device {result.device} does not exist on this node")
        request = result.request.split("/")[0]
        share = share_of(result)
        key = name, result.share_id or ""
        before = merged.get(key)
        merged[key] = ClaimDevice(
            device=name,
            card=card.name,
            pool=result.device.pool,
            # The same device may serve several requests (admin access).
            requests=(*before.requests, request) if before else (request,),
            cdi=device_id(result.device.driver, ref.uid, name, share),
            admin=result.admin_access and (before is None or before.admin),
            card_uuid=card.uuid,
            share=share,
        )
    return tuple(merged.values())


def share_of(result: DeviceResult) -> Share | None:
    """Return the share that a result is, None for a device that the claim has for itself.

    A part of a byte or percent is left out: a limit must not be more than what was allocated.
    """
    if result.share_id is None:
        return None
    memory, cores = (result.consumed.get(name) for name in ("memory", "cores"))
    return Share(
        result.share_id,
        memory.nano // NANO if memory is not None else 0,
        cores.nano // NANO if cores is not None else 0,
    )


def check_cards(known: ClaimRow, devices: Sequence[ClaimDevice]) -> None:
    """Raise NotReady when a claim's row was written for another card than the one that has its name now.

    Its containers may run on the card that the row names; what is written for the card of today would be another claim's.
    """
    now = {device.card: device.card_uuid for device in devices}
    for device in known.devices:
        uuid = now.get(device.card, "")
        if "" not in {device.card_uuid, uuid} and device.card_uuid != uuid:
            raise NotReady(
                f"ResourceClaim {known.key}: {device.device} was prepared on {device.card_uuid}, and {device.card} is"
                f" {uuid} now; the claim is unprepared first"
            )


def check_requests(known: ClaimRow, devices: Sequence[ClaimDevice]) -> None:
    """Raise NotReady when a claim is prepared with other devices than it is allocated now, or with these for other requests.

    Access and amounts follow from request and share; a row that was recovered without the API may lack them.
    """
    if _requests(known.devices) != _requests(devices):
        raise NotReady(
            f"ResourceClaim {known.key} was prepared with other devices before, or for other requests; it is unprepared first"
        )


def same_use(known: Sequence[ClaimDevice], devices: Sequence[ClaimDevice]) -> bool:
    """Say whether both are the same devices, for the same requests and with the same access and shares."""
    uses = [{each.id: (each.admin, each.share) for each in some} for some in (known, devices)]
    return uses[0] == uses[1] and _requests(known) == _requests(devices)


def _requests(devices: Sequence[ClaimDevice]) -> dict[tuple[str, str], frozenset[str]]:
    return {each.id: frozenset(each.requests) for each in devices}


def why_unusable(partition: Partition | None, row: ClaimRow, device: ClaimDevice) -> str:
    """Say why a Partition cannot serve a claim, "" when it can."""
    if partition is None and device.admin:
        return f"device {device.device} is not cut; a claim with admin access has what others have, and nothing is cut for it"
    if partition is None:
        return f"no Partition object for device {device.device} is there yet"
    # What the claim has bound stays until it is unprepared, also when somebody deletes the object: its containers use it.
    if is_deleting(partition) and device.partition != partition.metadata.uid:
        return f"partition {partition.metadata.name} is being removed"
    if partition.spec.origin is Origin.LAYOUT or device.admin:
        return ""
    holder = partition.spec.holder
    if holder is None:
        return f"partition {partition.metadata.name} is not assigned to the claim yet"
    if holder.uid != row.uid:
        return f"partition {partition.metadata.name} belongs to {holder.namespace}/{holder.name}"
    return ""


def cut_state(partition: Partition) -> str:
    """Return phase and message of a Partition that is not ready, for an error."""
    return f"{partition.status.phase or Phase.PENDING} {partition.status.message}".strip()
