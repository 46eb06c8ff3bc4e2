"""Cut one partition: from a wish to a partition on the hardware, one journal step at a time.

In: a wish, its journal row if there is one, what is live on the card. Out: an outcome. Finding the partition made is
success, if the journal or the API says that it is ours; a stranger in its place is left alone.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import structlog

from apportion.agent.devices.values import Card, LivePartition, PartitionPlace, Placement
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.lifecycle.desiredpartitions import layout_of
from apportion.agent.lifecycle.report import PartitionOutcome
from apportion.agent.rows import PartitionRow, Step
from apportion.agent.slices.naming import PartitionDevice, partition_device
from apportion.api.partition import Origin, Partition, Phase
from apportion.errors import Busy, HardwareError, Lost, NoRoom, Unsupported

Live = Mapping[PartitionPlace, LivePartition]
_log = structlog.get_logger()


async def cut(
    context: AgentContext, card: Card, partition: Partition, live: Live, *, may_wait: bool
) -> PartitionOutcome:
    """Bring one wished partition as far as it goes. The caller holds the card's lock.

    `hopeful`: room may still come, so a refusal for want of it means waiting, not failure.
    """
    meant = partition_device(card, partition.spec.device)
    if meant is None or meant.profile.name != partition.spec.profile:
        return PartitionOutcome(
            Phase.FAILED,
            "UnknownDevice",
            f"{card.name} has no device {partition.spec.device} of profile {partition.spec.profile}",
        )
    if (
        partition.spec.placement is not None
        and meant.placement is not None
        and (partition.spec.placement.start, partition.spec.placement.size)
        != (
            meant.placement.start,
            meant.placement.size,
        )
    ):
        return PartitionOutcome(
            Phase.FAILED,
            "UnknownDevice",
            f"{partition.spec.device} lies at {meant.placement.start}, not at {partition.spec.placement.start}",
        )
    row = context.journal.partition(partition.metadata.uid)
    try:
        row = (
            await _verified(context, row, live)
            if row is not None
            else row_from_hardware(context, card, partition, live)
        )
        if row is None:
            if partition.spec.holder is None and partition.spec.origin is Origin.CLAIM:
                # Whoever wanted it has gone, and nothing was made: the operator deletes the object.
                return PartitionOutcome(
                    Phase.FAILED,
                    "NotWanted",
                    f"{partition.spec.device} was not cut before its claim was gone",
                )
            user = context.whole_card_user(card.name)
            if user is not None:
                return _wait("CardInUse", f"{card.name} is prepared whole for ResourceClaim {user.key}")
            row = await _intend(context, card, meant, partition, live)
        if row.step is Step.INTENT:
            row = await _make(context, row, live)
        if row.step is not Step.READY:
            row = replace(row, step=Step.READY)
            await asyncio.to_thread(context.journal.put_partition, row)
            context.at("partition.ready")
            _log.info(
                "partition.ready", partition=partition.metadata.name, uuid=row.uuid, place=str(row.place)
            )
            if row.layout:
                context.slices_changed()
    except NoRoom as error:
        return (
            _wait("NoRoom", str(error))
            if may_wait
            else PartitionOutcome(Phase.FAILED, "NoRoom", str(error), again=True)
        )
    except Busy as error:
        return (
            _wait("Busy", str(error))
            if may_wait
            else PartitionOutcome(Phase.FAILED, "Busy", str(error), again=True)
        )
    except Lost as error:
        return PartitionOutcome(Phase.FAILED, "Lost", str(error), again=True)
    except Unsupported as error:
        return PartitionOutcome(Phase.FAILED, "Unsupported", str(error))
    except HardwareError as error:
        # The driver does not say why; whoever waits must not wait for ever.
        return (
            _wait("Refused", str(error))
            if may_wait
            else PartitionOutcome(Phase.FAILED, "Refused", str(error), again=True)
        )
    return PartitionOutcome(Phase.READY if partition.spec.holder is not None else Phase.IDLE, "Cut")


async def _verified(context: AgentContext, row: PartitionRow, live: Live) -> PartitionRow | None:
    """Return the row if the hardware agrees with it; else what remains to be done."""
    found = live.get(row.place)
    if row.step is Step.RELEASING:
        # Released, and wished for again before the release was done: finish making it.
        row = replace(row, step=Step.INTENT)
    if row.step is Step.INTENT:
        return row
    if found is not None and found.uuid == row.uuid:
        return row
    if found is None or lost_compute_instance(row, found):
        # A reboot, a reset or a person took it, or its compute instance: make it again under the same identity.
        _log.warning("partition.vanished", partition=row.name, place=str(row.place))
        row = replace(row, step=Step.INTENT, uuid="", instance={})
        await asyncio.to_thread(context.journal.put_partition, row)
        return row
    # Somebody removed ours and made another in its place: that one is not ours to touch.
    _log.warning("partition.replaced", partition=row.name, place=str(row.place), by=found.uuid)
    await asyncio.to_thread(context.journal.drop_partition, row.uid)
    return None


def lost_compute_instance(row: PartitionRow, found: LivePartition) -> bool:
    """Say whether this is ours without its compute instance: somebody removed that by hand, or a removal broke off."""
    own = row.instance.get("gpuInstance")
    return not found.complete and own is not None and found.instance.get("gpuInstance") == own


def row_from_hardware(
    context: AgentContext, card: Card, partition: Partition, live: Live
) -> PartitionRow | None:
    """Return a row for what is on the hardware for this wish although the journal does not know it.

    It knows too little after it was lost: then the API's status says what is ours. And a partition that a person made stands
    for a layout's, where the policy says that such are adopted.
    """
    uuid = partition.status.uuid
    for found in live.values():
        if uuid and found.uuid == uuid:
            return _row(partition, found, Step.CREATED)
    meant = partition_device(card, partition.spec.device)
    if meant is None or meant.placement is None:
        return None
    there = live.get(PartitionPlace(card.name, partition.spec.profile, meant.placement))
    if there is None:
        return None
    if partition.metadata.uid in context.interrupted:
        # We said that we were about to cut it, and then lost our journal: whatever is at the place is what we were making.
        return _row(partition, there, Step.CREATED if there.complete else Step.INTENT)
    if context.adopt_foreign and layout_of(partition) and there.complete and not there.in_use:
        _log.warning(
            "partition.adopted", partition=partition.metadata.name, uuid=there.uuid, place=str(there.place)
        )
        return _row(partition, there, Step.CREATED)
    return None


def _row(partition: Partition, found: LivePartition, step: Step) -> PartitionRow:
    made = step is not Step.INTENT
    return PartitionRow(
        uid=partition.metadata.uid,
        name=partition.metadata.name,
        device=partition.spec.device,
        place=found.place,
        step=step,
        layout=layout_of(partition),
        instance=found.instance if made else {},
        uuid=found.uuid if made else "",
    )


async def _intend(
    context: AgentContext, card: Card, meant: PartitionDevice, partition: Partition, live: Live
) -> PartitionRow:
    """Choose the place and write down that we are about to use it."""
    place = PartitionPlace(
        card.name, partition.spec.profile, meant.placement or _free_id(context, card, live)
    )
    if place in live:
        # Not in our journal, so not ours: our Intent comes before the driver call.
        raise NoRoom(f"{place}: a partition that apportion did not make is there")
    row = PartitionRow(
        uid=partition.metadata.uid,
        name=partition.metadata.name,
        device=partition.spec.device,
        place=place,
        step=Step.INTENT,
        layout=layout_of(partition),
    )
    await asyncio.to_thread(context.journal.put_partition, row)
    context.at("partition.intent")
    return row


def _free_id(context: AgentContext, card: Card, live: Live) -> Placement:
    """Return the lowest id that neither the hardware nor the journal uses: chosen by us, it is known before the call."""
    used = {place.placement.start for place in live if place.card == card.name}
    used |= {row.place.placement.start for row in context.journal.partitions_of(card.name)}
    for number in card.instance_ids:
        if number not in used:
            return Placement(number, 1)
    raise NoRoom(f"{card.name}: every partition id is taken")


async def _make(context: AgentContext, row: PartitionRow, live: Live) -> PartitionRow:
    """Make what the journal intends; a half made one from before a crash goes first."""
    found = live.get(row.place)
    if found is not None and not found.complete:
        _log.warning("partition.half_made", partition=row.name, place=str(row.place))
        await context.hardware.destroy(found)
        found = None
    if found is None:
        try:
            found = await context.hardware.create(row.place)
        except HardwareError:
            if row.place not in await context.live(row.place.card):
                # Nothing was begun: a later try may take another place, and nothing here is ours.
                await asyncio.to_thread(context.journal.drop_partition, row.uid)
            raise
        context.at("hardware.created")
    made = replace(row, step=Step.CREATED, instance=found.instance, uuid=found.uuid)
    await asyncio.to_thread(context.journal.put_partition, made)
    context.at("partition.created")
    return made


def _wait(reason: str, message: str) -> PartitionOutcome:
    return PartitionOutcome(Phase.PENDING, reason, message, again=True)
