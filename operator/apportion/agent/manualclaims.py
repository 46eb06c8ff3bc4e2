"""What an administrator does by hand for a claim: it is read from a file, and its partitions are cut and removed without worker and API.

In: a claim, the agent's journal, locks and hardware. Out: values in place of a Partition object, whose UID begins with `BY_HAND`: a
running agent knows by it whose the partition is.
"""

from dataclasses import replace
from typing import Any

from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.lifecycle.cut import cut
from apportion.agent.lifecycle.release import release
from apportion.agent.rows import BY_HAND, ClaimDevice
from apportion.agent.slices.naming import partition_device
from apportion.api.partition import Partition
from apportion.dra.claim import Claim, Consumer
from apportion.errors import BrokenInput, HardwareError, NotReady

Json = dict[str, Any]


def claim_of(raw: Json) -> Claim:
    """Read an allocated claim from a file; an administrator need not reserve it. Raises BrokenInput."""
    if raw.get("kind", "ResourceClaim") != "ResourceClaim":
        raise BrokenInput(f"the file has a {raw['kind']}, not a ResourceClaim", field="kind")
    claim = Claim.from_json(raw)
    for name, value in (("namespace", claim.namespace), ("name", claim.name), ("uid", claim.uid)):
        if not value:
            raise BrokenInput("it is missing", field=f"metadata.{name}")
    if claim.allocation is None:
        raise BrokenInput(f"ResourceClaim {claim.key} is not allocated", field="status.allocation")
    return replace(claim, reserved_for=claim.reserved_for or (Consumer("hands", "administrator", BY_HAND),))


def partition_of(context: AgentContext, driver: str, claim: Claim, device: ClaimDevice) -> Partition | None:
    """Return what stands for a Partition object, None for a whole card. Raises NotReady, BrokenInput."""
    if device.device == device.card:
        return None
    known = next((row for row in context.journal.partitions().values() if row.device == device.device), None)
    card = context.hardware.cards[device.card]
    if known is None and device.admin:
        why = "is not cut; a claim with admin access has what others have, and nothing is cut for it"
        raise NotReady(f"ResourceClaim {claim.key}: {device.device} {why}")
    meant = partition_device(card, device.device)
    if meant is None:
        raise NotReady(f"{card.name} has no device {device.device}")
    layout = known.layout if known is not None else ""
    holder = {"kind": "ResourceClaim", "namespace": claim.namespace, "name": claim.name, "uid": claim.uid}
    uid = known.uid if known is not None else f"{BY_HAND}/{claim.uid}/{device.device}"
    raw = {
        "metadata": {"name": f"{BY_HAND}-{device.device}", "uid": uid, "resourceVersion": "1"},
        "spec": {
            "nodeName": device.pool,
            "driver": driver,
            "pool": device.pool,
            "device": device.device,
            "parent": card.name,
            "profile": meant.profile.name,
            "origin": "Layout" if layout else "Claim",
            "holder": {"kind": "PartitionLayout", "name": layout, "uid": layout} if layout else holder,
        },
    }
    partition = Partition.from_json(raw)
    context.desired.add(partition)
    return partition


async def cut_partition(context: AgentContext, partition: Partition) -> None:
    """Cut what stands for a Partition object. Raises NotReady with the reason why it is not cut."""
    card = context.hardware.cards[partition.spec.parent]
    async with context.lock(card.name):
        outcome = await cut(context, card, partition, await context.live(card.name), may_wait=False)
    if not outcome.ready:
        raise NotReady(f"{partition.spec.device}: {outcome.reason}: {outcome.message}")
    context.begun.forget(partition.metadata.uid)


async def remove_partition(context: AgentContext, device: ClaimDevice) -> None:
    """Remove the partition that was cut for a device, if the journal has it. Raises HardwareError when it stays."""
    async with context.lock(device.card):
        row = context.journal.partition(device.partition)
        outcome = await release(context, row, await context.live(device.card)) if row is not None else None
    if outcome is not None:
        raise HardwareError(f"{device.device}: {outcome.reason}: {outcome.message}")
