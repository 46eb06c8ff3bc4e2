"""Recover the prepared claims of a journal that was lost.

In: the files of claims (CDI and metadata), the API, the hardware. Out: journal rows. A claim whose CDI file is there was
prepared and not unprepared, so its containers may run: without a row its devices would be given to another claim.
"""

import asyncio
from collections.abc import Collection, Iterator
from dataclasses import replace

import structlog

from apportion.agent.cdi import CdiFolder, device_id
from apportion.agent.kubelet.claimdevices import claim_devices
from apportion.agent.kubelet.claims import ClaimRef, allocated_devices, read
from apportion.agent.kubelet.metadata import Json, MetadataFolder, share_in
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.rows import ClaimDevice, ClaimRow, ClaimStep, Share
from apportion.agent.slices.naming import card_of
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
    context: AgentContext, cdi: CdiFolder, metadata: MetadataFolder, *, driver: str, kind: str, node: str
) -> int:
    """Write rows for claims of which only files exist; returns how many.

    Called before workers start. After a reboot nothing is recovered: no container survived it. Files that name a partition
    which is not on the hardware are left for `remove_orphans`: no container can use it. One on a card that does not answer is not gone.
    """
    journal = context.journal
    if journal.rebooted:
        return 0
    known = {row.uid for row in journal.claims() if row.driver == driver}
    lost = [uid for uid in sorted(cdi.claims(driver) - known) if cdi.is_intact(driver, uid)]
    if not lost:
        return 0
    live, silent = await _there(context, kind)
    count = 0
    for uid in lost:
        files = metadata.read(uid)
        devices = tuple(_devices(context, files, uid, driver))
        uuids = {uuid for file in files for uuid in _uuids(file)}
        unknown = silent.intersection(device.card for device in devices)
        if not devices or not (uuids <= live or unknown):
            continue
        about = files[0]["metadata"]
        ref = ClaimRef(about["namespace"], about["name"], uid)
        row = ClaimRow(
            uid,
            driver,
            ref.namespace,
            ref.name,
            ClaimStep.PREPARED,
            await _planned(context, ref, devices, driver, kind, node),
        )
        try:
            await asyncio.to_thread(journal.reserve, row)
        except ApportionError as error:
            _log.error("claim.not_recovered", claim=ref.key, uid=uid, error=str(error))
            continue
        count += 1
        _log.warning("claim.recovered", claim=ref.key, uid=uid, devices=[device.device for device in devices])
    return count


def lost_claims(
    context: AgentContext, cdi: CdiFolder, metadata: MetadataFolder, driver: str, cards: Collection[str]
) -> tuple[str, ...]:
    """Return the UIDs of claims with devices of these cards that have files and no row."""
    known = {row.uid for row in context.journal.claims() if row.driver == driver}
    return tuple(
        uid
        for uid in sorted(cdi.claims(driver) - known)
        if any(device.card in cards for device in _devices(context, metadata.read(uid), uid, driver))
    )


async def _there(context: AgentContext, kind: str) -> tuple[set[str], set[str]]:
    """Return the UUIDs of what is there, and the names of cards that do not say what is on them."""
    live, silent = set[str](), set[str]()
    for card in context.hardware.cards.values():
        if card.kind == kind:
            live.add(card.uuid)
            try:
                live |= {found.uuid for found in await context.hardware.partitions_of(card.name)}
            except HardwareError:
                silent.add(card.name)
    return live, silent


def _devices(context: AgentContext, files: tuple[Json, ...], uid: str, driver: str) -> Iterator[ClaimDevice]:
    """Yield the devices that the metadata files name, each once, with the requests that they serve."""
    requests: dict[tuple[str, str, Share | None], list[str]] = {}
    for file in files:
        for request in file["requests"]:
            for device in request["devices"]:
                key = device["name"], device["pool"], share_in(device["attributes"])
                requests.setdefault(key, []).append(request["name"].split("/")[0])
    for (name, pool, share), served in requests.items():
        card = card_of(name, dict(context.hardware.cards))
        partition = context.partition_for(name, uid)
        if card is not None:
            yield ClaimDevice(
                device=name,
                card=card.name,
                pool=pool,
                requests=tuple(dict.fromkeys(served)),
                cdi=device_id(driver, uid, name, share),
                partition=partition.metadata.uid if partition is not None and name != card.name else "",
                card_uuid=card.uuid,
                share=share,
            )


def _uuids(file: Json) -> Iterator[str]:
    for request in file["requests"]:
        for device in request["devices"]:
            uuid = device["attributes"].get("uuid", {}).get("string")
            if uuid:
                yield uuid


async def _planned(
    context: AgentContext,
    ref: ClaimRef,
    devices: tuple[ClaimDevice, ...],
    driver: str,
    kind: str,
    node: str,
) -> tuple[ClaimDevice, ...]:
    """Return the devices as the API has them, if the claim has exactly these: only the API says which have admin access."""
    try:
        results = allocated_devices(await read(context.client, ref), ref, driver, node)
        planned = claim_devices(ref, results, context.hardware.cards, kind)
    except ApportionError:
        # The claim is gone, has lost its devices, or the API does not answer: the devices are in use all the same.
        return devices
    bound = {device.id: device.partition for device in devices}
    if set(bound) != {device.id for device in planned}:
        return devices
    return tuple(replace(device, partition=bound[device.id]) for device in planned)
