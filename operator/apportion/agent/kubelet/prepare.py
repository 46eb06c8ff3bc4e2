"""Prepare and unprepare: make a claim's devices usable in containers, and free them again.

In: a claim reference. Out: the devices with their CDI ids. Kubelet may repeat both calls at any time, also after a crash and to
another process; a claim that fails does not affect others. Every step is written into the journal before it is done.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from weakref import WeakValueDictionary

import structlog

from apportion.agent import files
from apportion.agent.cdi import CdiFolder, Injection
from apportion.agent.devices.values import LivePartition, PartitionPlace
from apportion.agent.kubelet.claimdevices import check_cards, check_requests, claim_devices, same_use
from apportion.agent.kubelet.claimfiles import lacks_interface
from apportion.agent.kubelet.claims import ClaimRef, allocated_devices, read, still_allocated
from apportion.agent.kubelet.claimsetup import ClaimSetup
from apportion.agent.kubelet.claimstatus import ClaimStatusWriter, DeviceCondition
from apportion.agent.kubelet.configuration import network_configs
from apportion.agent.kubelet.devicewaiter import LONGEST_WAIT, DeviceWaiter
from apportion.agent.kubelet.metadata import DeviceDescription, MetadataFolder
from apportion.agent.kubelet.reservation import reserve
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.lifecycle.desiredpartitions import layout_of
from apportion.agent.network.podnetworks import PodNetworks
from apportion.agent.rows import BY_HAND, ClaimDevice, ClaimRow, ClaimStep
from apportion.agent.sharing.setups import Setups
from apportion.agent.slices.device import device_attributes
from apportion.dra.allocation import DeviceResult
from apportion.dra.claim import Claim
from apportion.errors import ApportionError, NotReady

_log = structlog.get_logger()


class Preparer:
    """One driver's prepare and unprepare."""

    def __init__(
        self,
        context: AgentContext,
        cdi: CdiFolder,
        metadata: MetadataFolder,
        setups: Setups,
        *,
        driver: str,
        kind: str,
        node: str,
        try_now: Callable[[str, str], None],
        networks: PodNetworks,
        claim_status: ClaimStatusWriter | None = None,
        claims: Callable[[ClaimRef], Awaitable[Claim | None]] | None = None,
        on_unprepared: Callable[[ClaimRow], None] = lambda _: None,
        observe_seconds: Callable[[float], None] = lambda _: None,
        timeout: float = 30.0,
    ) -> None:
        """`setups` are those of all drivers, `networks` those of the node; `try_now(card, Partition UID)` asks the card's worker to try without delay.

        `claim_status` gets the conditions of devices; `claims` reads a claim, by default from the API.
        `on_unprepared(row)` is called after an unprepare, `observe_seconds` with the duration of a successful prepare.
        `timeout` (seconds) stays below kubelet's 45.
        """
        self._context = context
        self._cdi = cdi
        self._metadata = metadata
        self._setup = ClaimSetup(context, setups, metadata, driver, kind)
        self._networks = networks
        self._claim_status = claim_status
        self._claims = claims or (lambda ref: read(context.client, ref))
        self.driver = driver
        self._kind = kind
        self._node = node
        self._try_now = try_now
        self._waiter = DeviceWaiter(context, try_now)
        self._on_unprepared = on_unprepared
        self._observe_seconds = observe_seconds
        self._timeout = timeout
        # A lock lives as long as a call holds or awaits it.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def prepare(self, ref: ClaimRef) -> tuple[ClaimDevice, ...]:
        """Make the claim's devices of this driver usable. Raises ApportionError; kubelet tries again."""
        began = time.monotonic()
        async with self._lock(ref.uid):
            claim = await self._claims(ref)
            results = allocated_devices(claim, ref, self.driver, self._node)
            try:
                with files.writing(ref.key):
                    row, injections = await self._make_usable(claim, ref, results, self._timeout)
                if row.step is not ClaimStep.PREPARED:
                    await self._write_step(row, ClaimStep.INJECTED)
                    await self._write_step(row, ClaimStep.PREPARED)
            except ApportionError as error:
                self._report(ref, [DeviceCondition.failed(result, error) for result in results])
                raise
            self._report(ref, [DeviceCondition.ready(injection) for injection in injections])
            if row.step is not ClaimStep.PREPARED:
                self._update_statuses(row)
                seconds = time.monotonic() - began
                self._observe_seconds(seconds)
                about = {"devices": [device.device for device in row.devices], "seconds": round(seconds, 3)}
                _log.info("claim.prepared", claim=ref.key, driver=self.driver, **about)
        return row.devices

    async def restore_files(self, ref: ClaimRef, live: Mapping[PartitionPlace, LivePartition]) -> bool:
        """Write the files of a prepared claim anew if they are gone, damaged or out of date; returns whether they were.

        Kubelet repeats prepare only after its own restart, but a container that restarts needs them, with the device
        numbers and driver files of then. `live` is what was just seen on the hardware. Raises ApportionError.
        """
        if (lock := self._lock(ref.uid)).locked():
            # A call of kubelet writes or removes them; where it waits for a card, other claims' files do not.
            return False
        async with lock:
            row = self._context.journal.claim(ref.uid, self.driver)
            if row is None or row.step is not ClaimStep.PREPARED:
                return False
            now = await self._waiter.now(row, live)
            if self._cdi.shows(self.driver, ref.uid, now) and not self._lacks_interface(row):
                return False
            claim = await self._claims(ref)
            if claim is None or claim.allocation is None:
                return False
            results = allocated_devices(claim, ref, self.driver, self._node)
            await self._make_usable(claim, ref, results, LONGEST_WAIT)
            _log.warning("cdi.restored", claim=ref.key, driver=self.driver)
            return True

    async def remove_orphans(self) -> int:
        """Remove the files of claims that are not in the journal; returns of how many claims.

        They are left by a crash, a reboot, or a journal that was lost. Files that are not ours are not looked at.
        """
        hardware, journal = self._context.hardware, self._context.journal
        waiting = await hardware.look() or all(card.kind != self._kind for card in hardware.cards.values())
        if waiting and not journal.rebooted:
            # Its driver is awaited, or a card. After a lost journal these files alone say which claims are prepared.
            return 0
        found = await asyncio.to_thread(lambda: self._cdi.claims(self.driver) | self._metadata.claims())
        known = {row.uid for row in journal.claims() if row.driver == self.driver}
        for uid in sorted(found - known):
            async with self._lock(uid):
                # Check and removal are one transaction of the journal: another agent may be about to prepare the claim.
                remove = partial(self._remove_files, uid)
                await asyncio.to_thread(journal.if_unclaimed, uid, self.driver, remove)
        return len(found - known)

    def _remove_files(self, uid: str) -> None:
        self._cdi.remove(self.driver, uid)
        self._metadata.remove(uid)
        _log.info("cdi.orphan_removed", claim=uid, driver=self.driver)

    async def _make_usable(
        self, claim: Claim | None, ref: ClaimRef, results: Sequence[DeviceResult], seconds: float
    ) -> tuple[ClaimRow, list[Injection]]:
        """Wait for the devices and write the claim's files. Raises NotReady."""
        if claim is None:
            raise NotReady(f"ResourceClaim {ref.key} does not exist")
        deadline = self._context.clock() + seconds
        row = await self._reserve(claim, ref, results)
        rows = [await self._waiter.wait(row, device, deadline) for device in row.devices]
        row = replace(row, devices=tuple(device for device, _ in rows))
        injections = await self._setup.done(claim, row, results, [each for _, each in rows], deadline)
        named = {
            key: tuple(
                result.request for result in results if (result.device.name, result.share_id or "") == key
            )
            for key in (device.id for device in row.devices)
        }
        devices = [
            DeviceDescription(
                named[device.id], self._node, device.device, self._attributes(device, each), device.share
            )
            for device, each in zip(row.devices, injections, strict=True)
        ]
        mounts = await asyncio.to_thread(self._metadata.write, claim, devices)
        if row.step is not ClaimStep.PREPARED or self._lacks_interface(row):
            asked = network_configs(claim, self.driver, results, self._context.hardware.cards)
            pods = [each.uid for each in claim.reserved_for if each.resource == "pods"]
            await self._networks.offer(row, asked, pods)
        networks = self._networks.mounts(ref.uid, self.driver)
        variables = self._setup.variables(claim, row, results)
        injections = [
            replace(
                each,
                edits=replace(
                    each.edits,
                    env=(*each.edits.env, *(variables[name] for name in each.requests if name in variables)),
                ),
                own=(
                    *each.own,
                    *(mount for name in each.requests for mount in mounts[name]),
                    *(networks[name] for name in (each.device,) if name in networks),
                ),
            )
            for each in injections
        ]
        await asyncio.to_thread(self._cdi.write, self.driver, ref.uid, injections)
        self._context.at("cdi.written")
        return row, injections

    def _lacks_interface(self, row: ClaimRow) -> bool:
        return lacks_interface(self._cdi, row, self._networks.mounts(row.uid, row.driver))

    def _attributes(self, device: ClaimDevice, each: Injection) -> dict[str, object]:
        partition = self._context.desired.get(device.partition)
        layout = layout_of(partition) if partition is not None else ""
        return device_attributes(each.device, self._context.hardware.cards, each.uuid, layout=layout)

    def _report(self, ref: ClaimRef, conditions: Sequence[DeviceCondition]) -> None:
        if self._claim_status is not None:
            self._claim_status.add(ref, self.driver, self._node, conditions)

    async def unprepare(self, ref: ClaimRef) -> None:
        """Free the claim's devices; one that was never prepared, or whose claim is gone, is fine."""
        async with self._lock(ref.uid):
            await self._undo(ref)

    async def abandon(self, ref: ClaimRef) -> bool:
        """Undo a preparation that was never finished, if its claim lost the devices meanwhile; returns whether it did.

        Kubelet never got an answer that the claim is prepared, so no container has it. What an administrator is about to prepare is not
        of the API, and nobody abandons it. Raises ApportionError.
        """
        async with self._context.lock(BY_HAND), self._lock(ref.uid):
            row = self._context.journal.claim(ref.uid, self.driver)
            if row is None or row.step is ClaimStep.PREPARED:
                return False
            if still_allocated(await self._claims(ref), row):
                return False
            await self._undo(ref)
            return True

    async def _undo(self, ref: ClaimRef) -> None:
        row = self._context.journal.claim(ref.uid, self.driver)
        if row is not None:
            await self._write_step(row, ClaimStep.UNPREPARING)
        with files.writing(ref.key):
            await asyncio.to_thread(self._cdi.remove, self.driver, ref.uid)
            await asyncio.to_thread(self._metadata.remove, ref.uid)
        self._context.at("cdi.removed")
        await self._networks.release(ref.uid, self.driver)
        if row is not None:
            await self._setup.undone(row)
            await asyncio.to_thread(self._context.journal.drop_claim, ref.uid, self.driver)
            self._context.at("claim.gone")
            self._update_statuses(row)
            self._on_unprepared(row)
            _log.info("claim.unprepared", claim=ref.key, driver=self.driver)

    async def _reserve(self, claim: Claim, ref: ClaimRef, results: Sequence[DeviceResult]) -> ClaimRow:
        """Write the claim's first row, or return the known one; one that was not prepared to the end is written anew for another allocation.

        Raises NotReady naming the holder of a device, BrokenInput for a configuration that would not be honoured.
        """
        cards = self._context.hardware.cards
        devices = claim_devices(ref, results, cards, self._kind)
        known = self._context.journal.claim(ref.uid, self.driver)
        if known is not None:
            check_cards(known, devices)
            if known.step is ClaimStep.PREPARED:
                check_requests(known, devices)
                return known
            if same_use(known.devices, devices):
                return replace(known, step=ClaimStep.PREPARING)
            await self._networks.release(ref.uid, self.driver)
        row = ClaimRow(ref.uid, self.driver, ref.namespace, ref.name, ClaimStep.PREPARING, devices)
        await self.begin(claim, results, row)
        if known is not None:
            self._update_statuses(known)
        return row

    async def begin(self, claim: Claim, results: Sequence[DeviceResult], row: ClaimRow) -> None:
        """Write a claim's first row. Raises as `_reserve`; a claim that runs keeps what it has, whatever is refused by now."""
        self._setup.check(claim, results, row.devices)
        await reserve(self._context, row)
        self._context.at("claim.preparing")

    async def _write_step(self, row: ClaimRow, step: ClaimStep) -> None:
        journal = self._context.journal
        write = journal.put_claim if step is ClaimStep.UNPREPARING else journal.advance_claim
        await asyncio.to_thread(write, replace(row, step=step))
        self._context.at(f"claim.{step.lower()}")

    def _update_statuses(self, row: ClaimRow) -> None:
        """Have the workers write `preparedBy` of the claim's Partitions."""
        for device in row.devices:
            if device.partition:
                self._try_now(device.card, device.partition)

    def _lock(self, uid: str) -> asyncio.Lock:
        return self._locks.setdefault(uid, asyncio.Lock())
