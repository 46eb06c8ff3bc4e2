"""Cut one partition: from a Partition object to a partition on the hardware, with a journal row before and after each step.

In: a Partition, its journal row if there is one, what is live on the card. Out: an outcome. A partition that is there already
is success if the journal or the status of the object says that it is ours; one that somebody else made is left alone.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import structlog

from apportion.agent.deviceplugins import plugin_message
from apportion.agent.devices.values import Card, LivePartition, PartitionPlace, Placement
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.lifecycle.desiredpartitions import is_deleting, layout_of
from apportion.agent.lifecycle.handover import handed_over
from apportion.agent.lifecycle.report import PartitionOutcome
from apportion.agent.rows import PartitionRow, Step
from apportion.agent.slices.naming import PartitionDevice, partition_device
from apportion.api.contract import STATIC_SUFFIX
from apportion.api.partition import Origin, Partition, Phase
from apportion.errors import Busy, HardwareError, Lost, NoRoom, NotReady, Occupied, Unsupported

Live = Mapping[PartitionPlace, LivePartition]
_log = structlog.get_logger()


async def cut(
    context: AgentContext, card: Card, partition: Partition, live: Live, *, may_wait: bool
) -> PartitionOutcome:
    """Bring one partition as far as it goes. The caller holds the card's lock.

    `may_wait`: room may still come, so that a refusal for want of it means Pending, not Failed.
    """
    spec = partition.spec
    meant = partition_device(card, spec.device)
    renamed = meant is not None and meant.name != spec.device.removesuffix(STATIC_SUFFIX)
    if meant is None or (meant.profile.name != spec.profile and not renamed):
        why = f"{card.name} has no device {spec.device} of profile {spec.profile}"
        return PartitionOutcome(Phase.FAILED, "UnknownDevice", why)
    place, asked = meant.placement, spec.placement
    if asked is not None and place is not None and (asked.start, asked.size) != (place.start, place.size):
        why = f"{spec.device} lies at {place.start}, not at {asked.start}"
        return PartitionOutcome(Phase.FAILED, "UnknownDevice", why)
    try:
        row = context.journal.partition(partition.metadata.uid) or await handed_over(context, partition)
        elsewhere = row is not None and on_another_card(row, card)
        if elsewhere:
            return PartitionOutcome(Phase.FAILED, "Lost", elsewhere, retry=True)
        if row is not None:
            row = await _verified(context, row, live)
        else:
            row = row_from_hardware(context, card, partition, live)
        if row is None and spec.holder is None and spec.origin is Origin.CLAIM:
            # The claim has gone, and nothing was made: the operator deletes the object.
            why = f"{spec.device} was not cut before its claim was gone"
            return PartitionOutcome(Phase.FAILED, "NotWanted", why)
        if row is None or (row.step is Step.INTENT and row.place not in live):
            # Nothing of it is on the card: never made, or gone with a reboot, after which kubelet may be faster than this worker.
            user = context.whole_card_user(card.name)
            if user is not None:
                why = f"{card.name} is prepared whole for ResourceClaim {user.key}"
                # Containers of a pod that was deleted by force may run for days: its claim goes elsewhere then.
                phase = Phase.PENDING if may_wait else Phase.FAILED
                return PartitionOutcome(phase, "CardInUse", why, retry=True)
        if row is None:
            row = await _intend(context, card, meant, partition, live)
        if row.step is Step.INTENT:
            row = await _make(context, row, live, known=partition.status.uuid or "")
        if row.step is not Step.READY:
            row = replace(row, step=Step.READY)
            await asyncio.to_thread(context.journal.put_partition, row)
            context.at("partition.ready")
            _log.info("partition.ready", partition=row.name, uuid=row.uuid, place=str(row.place))
            if row.layout:
                context.slices_changed()
    except HardwareError as error:
        return _refusal(error, may_wait=may_wait)
    except NotReady as error:
        # The journal could not be written: what cannot be written down is not done here, and may be done elsewhere.
        return PartitionOutcome(Phase.FAILED, "NoJournal", str(error), retry=True)
    return PartitionOutcome(Phase.READY if spec.holder is not None else Phase.IDLE, "Cut")


def _refusal(error: HardwareError, *, may_wait: bool) -> PartitionOutcome:
    """Return what a driver's refusal means for the Partition."""
    known = (kind.__name__ for kind in (NoRoom, Busy, Lost, Unsupported) if isinstance(error, kind))
    # A driver that gives no reason counts as one that may have room later; the wait for it ends.
    reason = next(known, "Refused")
    if may_wait and reason not in {"Lost", "Unsupported"}:
        return _wait(reason, str(error))
    return PartitionOutcome(Phase.FAILED, reason, str(error), retry=reason != "Unsupported")


def on_another_card(row: PartitionRow, card: Card | None) -> str:
    """Say that a row was written for another card than the one that has its name now, if any has; "" when it was not.

    What became of that partition is unknown, and the card of today has nothing to do with it.
    """
    if card is not None and row.card_uuid in {"", card.uuid}:
        return ""
    now = f"; {card.name} is {card.uuid} now" if card is not None else ""
    return f"{row.name} lies on {row.card_uuid or row.place.card}, which this node does not show{now}"


async def _verified(context: AgentContext, row: PartitionRow, live: Live) -> PartitionRow | None:
    """Return the row as the hardware has it: as it is, to be made (again), or None for one that is not ours any more."""
    found = live.get(row.place)
    if row.step is Step.RELEASING:
        # Its release was begun and not finished, and it is wanted again: make it.
        row = replace(row, step=Step.INTENT)
    if row.step is Step.INTENT and not row.uuid:
        return row
    if found is not None and found.uuid == row.uuid:
        return row
    if found is None or row.is_half(found):
        # A reboot, a reset or a person removed it or its compute instance: make it again for the same object.
        _log.warning("partition.vanished", partition=row.name, place=str(row.place))
        row = replace(row, step=Step.INTENT, uuid="", instance={})
        await asyncio.to_thread(context.journal.put_partition, row)
        return row
    # Another partition is at its place: that one is not ours to touch.
    _log.warning("partition.replaced", partition=row.name, place=str(row.place), by=found.uuid)
    await asyncio.to_thread(context.journal.drop_partition, row.uid)
    return None


def row_from_hardware(
    context: AgentContext, card: Card, partition: Partition, live: Live
) -> PartitionRow | None:
    """Return a row for what is on the hardware for this Partition although the journal has none; None: nothing of ours is there.

    After the journal was lost the object's status says what is ours: by UUID, or of half a GPU instance by the driver's id. What stands for the
    UUID of a vNPU is its id, which a person may have given to one of another template: the driver says which one it has, or nothing. With
    `--foreign adopt` a partition that a person made at the place of a layout's becomes the layout's. What has another object's row is that
    one's: a status that a backup brought back may name a UUID that was given again.
    """
    uid, uuid = partition.metadata.uid, partition.status.uuid
    meant = partition_device(card, partition.spec.device)
    # A driver may call the profile otherwise by now.
    profiles = {"", partition.spec.profile, meant.profile.name if meant is not None else ""}
    for found in live.values():
        same = _is(found, uuid or "") and found.profile in profiles
        if same and not context.is_anothers(uid, found):
            return _row(partition, card, found, Step.CREATED)
    if meant is None:
        return None
    interrupted = uid in context.journal.interrupted()
    placement = meant.placement or (context.begun.placement(uid) if interrupted else None)
    place = PartitionPlace(card.name, meant.profile.name, placement) if placement else None
    there = live.get(place) or live.get(replace(place, profile="")) if place else None
    if there is None or context.is_anothers(uid, there):
        return None
    own = partition.status.instance.get("gpuInstance")
    if own is not None and not there.complete and there.instance.get("gpuInstance") == own:
        # The journal was lost while a removal had taken its compute instance, and the UUID with that.
        return _row(partition, card, there, Step.INTENT)
    if interrupted and there.in_use is not True:
        # The journal was lost while we were making what is at the place.
        return _row(partition, card, there, Step.CREATED if there.complete else Step.INTENT)
    # One that is being deleted has adopted nothing, or its status would say so.
    wanted = context.adopt_foreign and layout_of(partition) and not is_deleting(partition)
    if wanted and there.complete and there.in_use is False:
        _log.warning(
            "partition.adopted", partition=partition.metadata.name, uuid=there.uuid, place=str(there.place)
        )
        return _row(partition, card, there, Step.CREATED)
    return None


def _row(partition: Partition, card: Card, found: LivePartition, step: Step) -> PartitionRow:
    made = step is not Step.INTENT
    return PartitionRow(
        uid=partition.metadata.uid,
        name=partition.metadata.name,
        device=partition.spec.device,
        # A driver may not tell the template of a vNPU for a while.
        place=replace(found.place, profile=found.profile or partition.spec.profile),
        step=step,
        layout=layout_of(partition),
        instance=found.instance if made else {},
        uuid=found.uuid if made else "",
        card_uuid=card.uuid,
    )


async def _intend(
    context: AgentContext, card: Card, meant: PartitionDevice, partition: Partition, live: Live
) -> PartitionRow:
    """Choose the place and write the row that says that we are about to use it. Raises NoRoom."""
    if twice := plugin_message([card], context.offered):
        raise NoRoom(twice)
    place = PartitionPlace(card.name, meant.profile.name, meant.placement or _free_id(context, card, live))
    found = live.get(place)
    if found is not None:
        if context.is_anothers(partition.metadata.uid, found):
            raise NoRoom(f"{place}: the partition of another object is there")
        # Not in our journal, so not ours: our Intent comes before the driver call.
        unseen = context.adopt_foreign and found.in_use is None
        why = "; it is not adopted: the agent sees no processes of the host (hostPID)" if unseen else ""
        raise NoRoom(f"{place}: a partition that apportion did not make is there{why}")
    row = PartitionRow(
        uid=partition.metadata.uid,
        name=partition.metadata.name,
        device=partition.spec.device,
        place=place,
        step=Step.INTENT,
        layout=layout_of(partition),
        card_uuid=card.uuid,
    )
    await asyncio.to_thread(context.journal.put_partition, row)
    context.at("partition.intent")
    return row


def _free_id(context: AgentContext, card: Card, live: Live) -> Placement:
    """Return the lowest id that neither the hardware nor the journal uses. Raises NoRoom."""
    used = {place.placement.start for place in live if place.card == card.name}
    used |= {row.place.placement.start for row in context.journal.partitions_of(card.name)}
    for number in card.instance_ids:
        if number not in used:
            return Placement(number, 1)
    raise NoRoom(f"{card.name}: every partition id is taken")


async def _make(context: AgentContext, row: PartitionRow, live: Live, *, known: str) -> PartitionRow:
    """Make what the row intends; a partition that a crash left half made is removed first.

    `known`: the UUID that the object's status names, "" without one. What has it is ours, although the driver did not show it for a moment.
    """
    found = live.get(row.place)
    if found is not None and context.is_anothers(row.uid, found):
        raise NoRoom(f"{row.place}: the partition of another object is there")
    if found is not None and not row.may_be(found) and not _is(found, known):
        await _forget(context, row)
        raise NoRoom(f"{row.place}: a partition that apportion did not make is there, and in use")
    if found is not None and not found.complete:
        _log.warning("partition.half_made", partition=row.name, place=str(row.place))
        await context.hardware.destroy(found)
        found = None
    if found is None:
        await asyncio.to_thread(context.begun.note, row.uid, row.place.placement)
        try:
            found = await context.hardware.create(row.place)
        except HardwareError as error:
            late = isinstance(error, Busy) and not isinstance(error, Occupied)
            if late:
                await asyncio.to_thread(context.begun.note_timeout, row.uid, context.clock())
            # A driver that timed out, or did not answer, may make it after all: the row says whose it is then.
            unknown = late or isinstance(error, Lost) or context.may_come(row.uid)
            there = None if unknown else (await context.live(row.place.card)).get(row.place)
            if not unknown and there is None:
                # Nothing was made: a later try may take another place, and a person this one.
                await _forget(context, row)
            if there is None or not _is(there, known):
                raise
            _log.warning("partition.shown_again", partition=row.name, uuid=there.uuid, place=str(row.place))
            found = there
        context.at("hardware.created")
    made = replace(row, step=Step.CREATED, instance=found.instance, uuid=found.uuid)
    await asyncio.to_thread(context.journal.put_partition, made)
    context.at("partition.created")
    return made


def _is(found: LivePartition, uuid: str) -> bool:
    return bool(uuid) and found.uuid == uuid


async def _forget(context: AgentContext, row: PartitionRow) -> None:
    """Forget what was never made."""
    await asyncio.to_thread(context.journal.drop_partition, row.uid)
    context.begun.forget(row.uid)


def _wait(reason: str, message: str) -> PartitionOutcome:
    return PartitionOutcome(Phase.PENDING, reason, message, retry=True)
