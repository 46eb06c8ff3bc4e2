"""Cut one partition: from a wish to a partition on the hardware, one journal step at a time.

In: a wish, its journal row if there is one, what is live on the card. Out: an outcome. Finding the partition made is
success, if the journal or the API says that it is ours; a stranger in its place is left alone.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import structlog

from apportion.agent.devices.values import Card, LivePartition, Placement, Spot
from apportion.agent.lifecycle.desk import Desk
from apportion.agent.lifecycle.outcome import Outcome, Phase
from apportion.agent.lifecycle.wish import Wish
from apportion.agent.rows import PartitionRow, Step
from apportion.agent.slices.naming import Cut, cut_of
from apportion.errors import Busy, HardwareError, Lost, NoRoom, Unsupported

Live = Mapping[Spot, LivePartition]
_log = structlog.get_logger()


async def cut(desk: Desk, card: Card, wish: Wish, live: Live, *, hopeful: bool) -> Outcome:
    """Bring one wished partition as far as it goes. The caller holds the card's lock.

    `hopeful`: room may still come, so a refusal for want of it means waiting, not failure.
    """
    meant = cut_of(card, wish.device)
    if meant is None or meant.profile.name != wish.profile:
        return Outcome(
            Phase.FAILED,
            "UnknownDevice",
            f"{card.name} has no device {wish.device} of profile {wish.profile}",
        )
    if wish.placement is not None and meant.placement is not None and wish.placement != meant.placement:
        return Outcome(
            Phase.FAILED,
            "UnknownDevice",
            f"{wish.device} lies at {meant.placement.start}, not at {wish.placement.start}",
        )
    row = desk.journal.partition(wish.uid)
    try:
        row = await _verified(desk, row, live) if row is not None else recognized(desk, card, wish, live)
        if row is None:
            if wish.holder is None and wish.origin == "Claim":
                # Whoever wanted it has gone, and nothing was made: the operator deletes the object.
                return Outcome(
                    Phase.FAILED, "NotWanted", f"{wish.device} was not cut before its claim was gone"
                )
            user = desk.whole_card_user(card.name)
            if user is not None:
                return _wait("CardInUse", f"{card.name} is prepared whole for ResourceClaim {user.key}")
            row = await _intend(desk, card, meant, wish, live)
        if row.step is Step.INTENT:
            row = await _make(desk, row, live)
        if row.step is not Step.READY:
            row = replace(row, step=Step.READY)
            await asyncio.to_thread(desk.journal.put_partition, row)
            desk.at("partition.ready")
            _log.info("partition.ready", partition=wish.name, uuid=row.uuid, place=str(row.spot))
            if row.layout:
                desk.published()
    except NoRoom as error:
        return (
            _wait("NoRoom", str(error))
            if hopeful
            else Outcome(Phase.FAILED, "NoRoom", str(error), again=True)
        )
    except Busy as error:
        return _wait("Busy", str(error)) if hopeful else Outcome(Phase.FAILED, "Busy", str(error), again=True)
    except Lost as error:
        return Outcome(Phase.FAILED, "Lost", str(error), again=True)
    except Unsupported as error:
        return Outcome(Phase.FAILED, "Unsupported", str(error))
    except HardwareError as error:
        # The driver does not say why; whoever waits must not wait for ever.
        return (
            _wait("Refused", str(error))
            if hopeful
            else Outcome(Phase.FAILED, "Refused", str(error), again=True)
        )
    return Outcome(Phase.READY if wish.holder is not None else Phase.IDLE, "Cut")


async def _verified(desk: Desk, row: PartitionRow, live: Live) -> PartitionRow | None:
    """Return the row if the hardware agrees with it; else what remains to be done."""
    found = live.get(row.spot)
    if row.step is Step.RELEASING:
        # Released, and wished for again before the release was done: finish making it.
        row = replace(row, step=Step.INTENT)
    if row.step is Step.INTENT:
        return row
    if found is not None and found.uuid == row.uuid:
        return row
    if found is None or hollow(row, found):
        # A reboot, a reset or a person took it, or its compute instance: make it again under the same identity.
        _log.warning("partition.vanished", partition=row.name, place=str(row.spot))
        row = replace(row, step=Step.INTENT, uuid="", instance={})
        await asyncio.to_thread(desk.journal.put_partition, row)
        return row
    # Somebody removed ours and made another in its place: that one is not ours to touch.
    _log.warning("partition.replaced", partition=row.name, place=str(row.spot), by=found.uuid)
    await asyncio.to_thread(desk.journal.drop_partition, row.uid)
    return None


def hollow(row: PartitionRow, found: LivePartition) -> bool:
    """Say whether this is ours without its compute instance: somebody removed that by hand, or a removal broke off."""
    own = row.instance.get("gpuInstance")
    return not found.complete and own is not None and found.instance.get("gpuInstance") == own


def recognized(desk: Desk, card: Card, wish: Wish, live: Live) -> PartitionRow | None:
    """Return a row for what is on the hardware for this wish although the journal does not know it.

    It knows too little after it was lost: then the API's status says what is ours. And a partition that a person made stands
    for a layout's, where the policy says that such are adopted.
    """
    uuid = wish.status.get("uuid")
    for found in live.values():
        if uuid and found.uuid == uuid:
            return _row(wish, found, Step.CREATED)
    meant = cut_of(card, wish.device)
    if meant is None or meant.placement is None:
        return None
    there = live.get(Spot(card.name, wish.profile, meant.placement))
    if there is None:
        return None
    if wish.uid in desk.forgotten:
        # We said that we were about to cut it, and then lost our journal: whatever is at the place is what we were making.
        return _row(wish, there, Step.CREATED if there.complete else Step.INTENT)
    if desk.adopting and wish.layout and there.complete and not there.in_use:
        _log.warning("partition.adopted", partition=wish.name, uuid=there.uuid, place=str(there.spot))
        return _row(wish, there, Step.CREATED)
    return None


def _row(wish: Wish, found: LivePartition, step: Step) -> PartitionRow:
    made = step is not Step.INTENT
    return PartitionRow(
        uid=wish.uid,
        name=wish.name,
        device=wish.device,
        spot=found.spot,
        step=step,
        layout=wish.layout,
        instance=found.instance if made else {},
        uuid=found.uuid if made else "",
    )


async def _intend(desk: Desk, card: Card, meant: Cut, wish: Wish, live: Live) -> PartitionRow:
    """Choose the place and write down that we are about to use it."""
    spot = Spot(card.name, wish.profile, meant.placement or _free_id(desk, card, live))
    if spot in live:
        # Not in our journal, so not ours: our Intent comes before the driver call.
        raise NoRoom(f"{spot}: a partition that apportion did not make is there")
    row = PartitionRow(
        uid=wish.uid, name=wish.name, device=wish.device, spot=spot, step=Step.INTENT, layout=wish.layout
    )
    await asyncio.to_thread(desk.journal.put_partition, row)
    desk.at("partition.intent")
    return row


def _free_id(desk: Desk, card: Card, live: Live) -> Placement:
    """Return the lowest id that neither the hardware nor the journal uses: chosen by us, it is known before the call."""
    used = {spot.placement.start for spot in live if spot.card == card.name}
    used |= {row.spot.placement.start for row in desk.journal.partitions_of(card.name)}
    for number in card.instance_ids:
        if number not in used:
            return Placement(number, 1)
    raise NoRoom(f"{card.name}: every partition id is taken")


async def _make(desk: Desk, row: PartitionRow, live: Live) -> PartitionRow:
    """Make what the journal intends; a half made one from before a crash goes first."""
    found = live.get(row.spot)
    if found is not None and not found.complete:
        _log.warning("partition.half_made", partition=row.name, place=str(row.spot))
        await desk.hardware.destroy(found)
        found = None
    if found is None:
        try:
            found = await desk.hardware.create(row.spot)
        except HardwareError:
            if row.spot not in await desk.live(row.spot.card):
                # Nothing was begun: a later try may take another place, and nothing here is ours.
                await asyncio.to_thread(desk.journal.drop_partition, row.uid)
            raise
        desk.at("hardware.created")
    made = replace(row, step=Step.CREATED, instance=found.instance, uuid=found.uuid)
    await asyncio.to_thread(desk.journal.put_partition, made)
    desk.at("partition.created")
    return made


def _wait(reason: str, message: str) -> Outcome:
    return Outcome(Phase.PENDING, reason, message, again=True)
