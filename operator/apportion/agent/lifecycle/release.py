"""Release one partition: remove it from the hardware, then from the journal; then take our finalizer from its object.

In: a journal row, what is live on the card. Out: an outcome, None when it is gone. A partition that a claim has prepared
is never removed, even if its object is deleted.
"""

import asyncio
from dataclasses import replace

import structlog

from apportion.agent.devices.values import LivePartition
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.lifecycle.cut import Live, on_another_card
from apportion.agent.lifecycle.desiredpartitions import is_deleting
from apportion.agent.lifecycle.report import PartitionOutcome
from apportion.agent.rows import PartitionRow, Step
from apportion.api.contract import AGENT_FINALIZER
from apportion.api.partition import Partition, Phase
from apportion.cluster.kinds import PARTITIONS
from apportion.errors import HardwareError, Missing, NotReady

_log = structlog.get_logger()


async def release(context: AgentContext, row: PartitionRow, live: Live) -> PartitionOutcome | None:
    """Remove a partition of ours. The caller holds the card's lock."""
    try:
        return await _removed(context, row, live)
    except NotReady as error:
        # The journal could not be written: the other partitions of the card go on, whose claims may go elsewhere.
        return PartitionOutcome(Phase.RELEASING, "NoJournal", str(error), retry=True)


async def _removed(context: AgentContext, row: PartitionRow, live: Live) -> PartitionOutcome | None:
    users = context.users(row.uid)
    if users:
        names = ", ".join(user.key for user in users)
        return PartitionOutcome(
            Phase.RELEASING, "InUse", f"still prepared for ResourceClaim {names}", retry=True
        )
    elsewhere = on_another_card(row, context.hardware.cards.get(row.place.card))
    if elsewhere:
        return PartitionOutcome(Phase.RELEASING, "Lost", elsewhere, retry=True)
    begun = row.step is Step.RELEASING
    if not begun:
        row = replace(row, step=Step.RELEASING)
        await asyncio.to_thread(context.journal.put_partition, row)
        context.at("partition.releasing")
    found = live.get(row.place)
    if found is None and context.may_come(row.uid):
        why = f"{row.place}: the driver has not made it in time, and may make it yet"
        return PartitionOutcome(Phase.RELEASING, "Busy", why, retry=True)
    try:
        if found is not None and _is_ours(context, row, found, begun=begun):
            await context.hardware.destroy(found)
            context.at("hardware.destroyed")
        # A driver may say once of what is there that it is not: nobody would know any more whose it is.
        left = (await context.live(row.place.card)).get(row.place)
    except HardwareError as error:
        return PartitionOutcome(Phase.RELEASING, error.kind, str(error), retry=True)
    if left is not None and _is_ours(context, row, left, begun=begun):
        why = f"{row.place}: the driver shows it still"
        return PartitionOutcome(Phase.RELEASING, "StillThere", why, retry=True)
    await asyncio.to_thread(context.journal.drop_partition, row.uid)
    context.begun.forget(row.uid)
    context.at("partition.gone")
    _log.info("partition.gone", partition=row.name, place=str(row.place))
    if row.layout:
        # Partitions of claims are not in the slices: allocations count them.
        context.slices_changed()
    return None


def is_leaving(context: AgentContext, partition: Partition) -> bool:
    """Say whether a partition is being deleted and can be removed: a claim that has it prepared may keep it for days."""
    return is_deleting(partition) and not context.users(partition.metadata.uid)


def _is_ours(context: AgentContext, row: PartitionRow, found: LivePartition, *, begun: bool) -> bool:
    """Say whether what lies at a row's place is to be removed for it; `begun`: an agent before has begun to.

    Without a UUID on the hardware it is what a removal that broke off left: a GPU instance that has lost its compute instance.
    """
    if context.is_anothers(row.uid, found):
        # It has the place by now, and nothing came for this one.
        return False
    return (begun and not found.complete) or row.is_at(found)


async def remove_finalizer(context: AgentContext, partition: Partition) -> None:
    """Take our finalizer from the object; raises Overtaken when the object changed meanwhile."""
    if AGENT_FINALIZER not in partition.metadata.finalizers:
        return
    rest = [name for name in partition.metadata.finalizers if name != AGENT_FINALIZER]
    body = {"metadata": {"resourceVersion": partition.metadata.resource_version, "finalizers": rest}}
    try:
        answer = await context.client.patch(PARTITIONS, partition.metadata.name, body)
    except Missing:
        return
    context.desired.observe(PARTITIONS, "MODIFIED", answer)
