"""Recover the prepared claims of a journal that was lost.

In: the files of claims (CDI and metadata), the API, the hardware. Out: journal rows. A claim whose CDI file is there was
prepared and not unprepared, so its containers may run: without a row its devices would be given to another claim.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace

import structlog

from apportion.agent.cdi import CdiFolder, device_id
from apportion.agent.kubelet.claimfiles import NamedDevice, named_devices
from apportion.agent.kubelet.claims import ClaimRef, allocated_devices, read, with_access
from apportion.agent.kubelet.metadata import MetadataFolder
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.rows import ClaimDevice, ClaimRow, ClaimStep
from apportion.api.partition import Phase
from apportion.errors import ApportionError, HardwareError

_log = structlog.get_logger()


async def note_interrupted(context: AgentContext) -> None:
    """Remember, in a journal that is new, which Partitions were being cut; forget those of which another one knows nothing any more."""
    begun = context.begun.all()
    if context.journal.fresh:
        # An agent of an older release says so in the status alone.
        begun |= {each.metadata.uid for each in context.desired.all() if each.status.phase is Phase.CREATING}
        await asyncio.to_thread(context.journal.note_interrupted, begun)
    else:
        for uid in begun - context.journal.interrupted() - context.journal.partitions().keys():
            context.begun.forget(uid)


async def recover_claims(
    context: AgentContext, cdi: CdiFolder, metadata: MetadataFolder, *, driver: str, node: str
) -> int:
    """Write rows for claims of which only files exist; returns how many. Raises NotReady when a row cannot be written.

    Called before workers start. After a reboot that the journal knows of nothing is recovered: no container survived it. A row has all devices that the files name,
    on the cards that had these names then, and a card that does not answer, or is not there, is not gone. Only files of a claim
    that the API does not confirm, of which each device is a partition that is not on its card, are left for `remove_orphans`: no container
    can use it. A claim that it confirms has a partition that is made anew, or is about to be.

    Those that the API confirms come first. Two prepared claims have one device where one of them looks at it with admin access, and only
    the API says which one: where it says so of neither, both hold it.
    """
    journal = context.journal
    if journal.rebooted:
        return 0
    known = {row.uid for row in journal.claims() if row.driver == driver}
    lost = [uid for uid in sorted(cdi.claims(driver) - known) if cdi.is_intact(driver, uid)]
    if not lost:
        return 0
    hardware = await _look(context)
    confirmed: list[ClaimRow] = []
    others: list[ClaimRow] = []
    for uid in lost:
        files = metadata.read(uid)
        devices = named_devices(files)
        if not devices:
            continue
        about = files[0]["metadata"]
        found = tuple(_device(context, device, uid, driver) for device in devices)
        row = ClaimRow(uid, driver, about["namespace"], about["name"], ClaimStep.PREPARED, found)
        allocated = await _allocated(context, row, node)
        if allocated is not None:
            confirmed.append(replace(row, devices=allocated))
        elif any(map(hardware.may_have, devices)):
            others.append(row)
    rows = [*confirmed, *(_as_looking(row, confirmed) for row in others)]
    for row in rows:
        await asyncio.to_thread(journal.put_claim, row)
        names = [device.device for device in row.devices]
        _log.warning("claim.recovered", claim=row.key, uid=row.uid, devices=names)
    return len(rows)


@dataclass(frozen=True, slots=True)
class _Hardware:
    """What is on the node as far as it answers."""

    cards: frozenset[str]
    """UUIDs of the cards that are there and say what is on them."""
    partitions: frozenset[str]
    """UUIDs of what is on them."""

    def may_have(self, device: NamedDevice) -> bool:
        """Say whether containers may use a device."""
        return device.whole or device.uuid in self.partitions or device.card_uuid not in self.cards


async def _look(context: AgentContext) -> _Hardware:
    cards, partitions = set[str](), set[str]()
    for card in context.hardware.cards.values():
        try:
            partitions |= {found.uuid for found in await context.hardware.partitions_of(card.name)}
            cards.add(card.uuid)
        except HardwareError:
            continue
    return _Hardware(frozenset(cards), frozenset(partitions))


def _device(context: AgentContext, named: NamedDevice, uid: str, driver: str) -> ClaimDevice:
    partition = None if named.whole else context.partition_for(named.device, uid)
    known = context.hardware.cards.get(named.card)
    renamed = known is not None and named.card_uuid != "" and named.card_uuid == known.former_uuid
    return ClaimDevice(
        device=named.device,
        card=named.card,
        pool=named.pool,
        requests=named.requests,
        cdi=device_id(driver, uid, named.device, named.share),
        partition=partition.metadata.uid if partition is not None else "",
        card_uuid=known.uuid if known is not None and renamed else named.card_uuid,
        share=named.share,
    )


async def _allocated(context: AgentContext, row: ClaimRow, node: str) -> tuple[ClaimDevice, ...] | None:
    """Return the devices as the API has them, if the claim has exactly these: it alone says which have admin access.

    None: the claim is gone, has lost its devices, or the API does not answer; they are in use all the same.
    """
    ref = ClaimRef(row.namespace, row.name, row.uid)
    try:
        claim = await read(context.client, ref)
        results = allocated_devices(claim, ref, row.driver, node)
    except ApportionError:
        return None
    devices = {device.id: device for device in with_access(claim, row).devices}
    keys = dict.fromkeys((result.device.name, result.share_id or "") for result in results)
    return tuple(devices[key] for key in keys) if devices.keys() == keys.keys() else None


def _as_looking(row: ClaimRow, confirmed: Iterable[ClaimRow]) -> ClaimRow:
    """Return a row that looks at those of its devices with admin access that a confirmed claim has."""
    taken = [device for other in confirmed for device in other.devices]
    return replace(
        row,
        devices=tuple(
            replace(device, admin=any(device.clashes(other) for other in taken)) for device in row.devices
        ),
    )
