"""Prepare and unprepare: make a claim's devices usable in containers, and free again.

In: a claim reference. Out: the devices with their CDI ids. Both calls may come again at any time, in another process, after
a crash; a claim's failure is its own. What is decided is computed from the claim and the cards; what is done is in the
journal first.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from weakref import WeakValueDictionary

import structlog

from apportion.agent.cdi import CdiFolder, Injection
from apportion.agent.devices.values import Card, CardKind, LivePartition
from apportion.agent.kubelet.claimdevices import PreparedDevice, claim_devices, cut_state, why_unusable
from apportion.agent.kubelet.claims import ClaimRef, allocated_devices, holds, read
from apportion.agent.kubelet.claimstatus import ClaimStatusWriter, DeviceCondition
from apportion.agent.kubelet.metadata import DeviceDescription, MetadataFolder
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.lifecycle.desiredpartitions import layout_of
from apportion.agent.rows import ClaimDevice, ClaimRow, ClaimStep, PartitionRow, Step
from apportion.agent.slices.device import described
from apportion.api.partition import Partition
from apportion.dra.allocation import DeviceResult
from apportion.dra.claim import Claim
from apportion.errors import ApportionError, HardwareError, NotReady

_log = structlog.get_logger()
_LOOK = 1.0
"""Seconds between looks at a partition that is awaited, should a bell be missed."""


class Preparer:
    """One driver's prepare and unprepare."""

    def __init__(
        self,
        context: AgentContext,
        cdi: CdiFolder,
        metadata: MetadataFolder,
        *,
        driver: str,
        kind: CardKind,
        node: str,
        try_now: Callable[[str, str], None],
        reports: ClaimStatusWriter | None = None,
        claims: Callable[[ClaimRef], Awaitable[Claim | None]] | None = None,
        on_unprepared: Callable[[ClaimRow], None] = lambda _: None,
        observe_seconds: Callable[[float], None] = lambda _: None,
        timeout: float = 30.0,
    ) -> None:
        """`urge(card, partition UID)` asks the card's worker to try now.

        `reports` tells the claim how its devices are; `claims` reads a claim, by default from the API. `freed(row)` is told after an unprepare, `timed(seconds)` how long a successful prepare took. `timeout` (seconds)
        stays below kubelet's 45.
        """
        self._context = context
        self._cdi = cdi
        self._metadata = metadata
        self._reports = reports
        self._claims = claims or (lambda ref: read(context.client, ref))
        self.driver = driver
        self._kind = kind
        self._node = node
        self._try_now = try_now
        self._on_unprepared = on_unprepared
        self._observe_seconds = observe_seconds
        self._timeout = timeout
        # A lock lives as long as a call holds or awaits it.
        self._calls: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def prepare(self, ref: ClaimRef) -> tuple[PreparedDevice, ...]:
        """Make the claim's devices of this driver usable. Raises ApportionError; kubelet tries again."""
        began = time.monotonic()
        async with self._call(ref.uid):
            claim = await self._claims(ref)
            results = allocated_devices(claim, ref, self.driver, self._node)
            try:
                row, injections = await self._bring(claim, ref, results, self._timeout)
            except ApportionError as error:
                self._report(ref, [DeviceCondition.failed(result.device.name, error) for result in results])
                raise
            self._report(ref, [DeviceCondition.ready(injection) for injection in injections])
            if row.step is not ClaimStep.PREPARED:
                await self._note(row, ClaimStep.INJECTED)
                await self._note(row, ClaimStep.PREPARED)
                self._tell(row)
                self._observe_seconds(time.monotonic() - began)
                _log.info(
                    "claim.prepared",
                    claim=ref.key,
                    driver=self.driver,
                    devices=[device.device for device in row.devices],
                    seconds=round(time.monotonic() - began, 3),
                )
        return tuple(
            PreparedDevice(device.requests, device.pool, device.device, device.cdi) for device in row.devices
        )

    async def restore(self, ref: ClaimRef) -> bool:
        """Make the files of a prepared claim again, if somebody removed or damaged them; returns whether it had to.

        Kubelet does not ask again while it lives, but a container that restarts needs them. Raises ApportionError.
        """
        async with self._call(ref.uid):
            row = self._context.journal.claim(ref.uid, self.driver)
            if row is None or row.step is not ClaimStep.PREPARED or self._cdi.whole(self.driver, ref.uid):
                return False
            claim = await self._claims(ref)
            if claim is None or claim.allocation is None:
                return False
            await self._bring(claim, ref, allocated_devices(claim, ref, self.driver, self._node), _LOOK)
            _log.warning("cdi.restored", claim=ref.key, driver=self.driver)
            return True

    async def sweep(self) -> int:
        """Remove the files of claims that nobody has prepared or is preparing; returns of how many claims.

        They are left by a crash, a reboot, or a journal that was lost. Files that are not ours are not looked at.
        """
        journal = self._context.journal
        found = await asyncio.to_thread(lambda: self._cdi.claims(self.driver) | self._metadata.claims())
        known = {row.uid for row in journal.claims() if row.driver == self.driver}
        for uid in sorted(found - known):
            async with self._call(uid):
                # The journal looks again and removes in one transaction: another agent may be about to begin.
                await asyncio.to_thread(journal.if_unclaimed, uid, self.driver, partial(self._forget, uid))
        return len(found - known)

    def _forget(self, uid: str) -> None:
        self._cdi.remove(self.driver, uid)
        self._metadata.remove(uid)
        _log.info("cdi.orphan_removed", claim=uid, driver=self.driver)

    async def _bring(
        self, claim: Claim | None, ref: ClaimRef, results: Sequence[DeviceResult], seconds: float
    ) -> tuple[ClaimRow, list[Injection]]:
        """Bring hardware, journal and files to where containers can use the devices."""
        if claim is None:
            raise NotReady(f"ResourceClaim {ref.key} does not exist")
        row = await self._reserve(ref, results)
        rows = [await self._settle(row, device, seconds) for device in row.devices]
        row = replace(row, devices=tuple(device for device, _ in rows))
        injections = [injection for _, injection in rows]
        named = {
            name: tuple(result.request for result in results if result.device.name == name)
            for name in (device.device for device in row.devices)
        }
        devices = [
            DeviceDescription(named[each.device], self._node, each.device, self._attributes(each))
            for each in injections
        ]
        mounts = await asyncio.to_thread(self._metadata.write, claim, devices)
        injections = [replace(each, own=tuple(mounts[name] for name in each.requests)) for each in injections]
        await asyncio.to_thread(self._cdi.write, self.driver, ref.uid, injections)
        self._context.at("cdi.written")
        return row, injections

    def _attributes(self, each: Injection) -> dict[str, object]:
        partition = self._context.desired.of_device(each.device) if each.partition else None
        return described(
            each.device,
            self._context.hardware.cards,
            each.uuid,
            layout=layout_of(partition) if partition is not None else "",
        )

    def _report(self, ref: ClaimRef, news: Sequence[DeviceCondition]) -> None:
        if self._reports is not None:
            self._reports.tell(ref, self.driver, self._node, news)

    async def unprepare(self, ref: ClaimRef) -> None:
        """Free the claim's devices; one that was never prepared, or whose claim is gone, is fine."""
        async with self._call(ref.uid):
            await self._undo(ref)

    async def abandon(self, ref: ClaimRef) -> bool:
        """Undo a preparation that was never finished, if its claim lost the devices meanwhile; returns whether it did.

        Kubelet was never told that the claim is prepared, so no container has it. Raises ApportionError.
        """
        async with self._call(ref.uid):
            row = self._context.journal.claim(ref.uid, self.driver)
            if row is None or row.step is ClaimStep.PREPARED:
                return False
            if holds(await self._claims(ref), self.driver, {device.device for device in row.devices}):
                return False
            await self._undo(ref)
            return True

    async def _undo(self, ref: ClaimRef) -> None:
        row = self._context.journal.claim(ref.uid, self.driver)
        if row is not None:
            await self._note(row, ClaimStep.UNPREPARING)
        await asyncio.to_thread(self._cdi.remove, self.driver, ref.uid)
        await asyncio.to_thread(self._metadata.remove, ref.uid)
        self._context.at("cdi.removed")
        if row is not None:
            await asyncio.to_thread(self._context.journal.drop_claim, ref.uid, self.driver)
            self._context.at("claim.gone")
            self._tell(row)
            self._on_unprepared(row)
            _log.info("claim.unprepared", claim=ref.key, driver=self.driver)

    async def _reserve(self, ref: ClaimRef, results: Sequence[DeviceResult]) -> ClaimRow:
        """Write down that we begin, or return where we were. Raises NotReady naming the holder of a device."""
        cards = dict(self._context.hardware.cards)
        devices = claim_devices(ref, results, cards, self._kind)
        known = self._context.journal.claim(ref.uid, self.driver)
        if known is not None and [d.device for d in known.devices] == [d.device for d in devices]:
            if known.step is ClaimStep.UNPREPARING:
                known = replace(known, step=ClaimStep.PREPARING)
            return known
        if known is not None and known.step is ClaimStep.PREPARED:
            raise NotReady(
                f"ResourceClaim {ref.key} was prepared with other devices before; it is unprepared first"
            )
        row = ClaimRow(ref.uid, self.driver, ref.namespace, ref.name, ClaimStep.PREPARING, devices)
        await asyncio.to_thread(self._context.journal.reserve, row)
        self._context.at("claim.preparing")
        return row

    async def _settle(
        self, row: ClaimRow, device: ClaimDevice, seconds: float
    ) -> tuple[ClaimDevice, Injection]:
        """Make sure that one device is there for this claim, and say what a container needs for it."""
        card = self._context.hardware.cards[device.card]
        if device.device == card.name:
            await self._make_whole(row, card)
            return device, Injection(
                device.device, device.requests, card.uuid, partition=False, edits=card.edits
            )
        deadline = self._context.clock() + seconds
        why = f"no Partition object for device {device.device} is there yet"
        asked = False
        while self._context.clock() < deadline:
            async with self._context.lock(card.name):
                partition = self._context.desired.of_device(device.device)
                why = why_unusable(partition, row, device)
                if partition is not None and not why:
                    why = f"partition {partition.metadata.name} is not cut yet: {cut_state(partition)}"
                    try:
                        live = await self._live(partition)
                    except HardwareError as error:
                        # What was seen last on a card that does not answer is no ground to start a container on.
                        live, why = None, f"partition {partition.metadata.name} cannot be seen: {error}"
                    if live is not None:
                        found = replace(device, partition=partition.metadata.uid)
                        if found != device:
                            # Inside the card's lock: from here on no worker removes it.
                            devices = tuple(found if d == device else d for d in self._row(row).devices)
                            await asyncio.to_thread(
                                self._context.journal.put_claim, replace(self._row(row), devices=devices)
                            )
                            self._context.at("claim.bound")
                        return found, Injection(
                            device.device, device.requests, live.uuid, partition=True, edits=live.edits
                        )
            if partition is not None and not asked:
                self._try_now(card.name, partition.metadata.uid)
                asked = True
            await self._context.partition_changed.wait(
                min(_LOOK, max(deadline - self._context.clock(), 0.01))
            )
        raise NotReady(f"ResourceClaim {row.key}: {why}")

    async def _live(self, partition: Partition) -> LivePartition | None:
        """Return the partition if journal and hardware agree that it is there and whole; raises HardwareError."""
        row: PartitionRow | None = self._context.journal.partition(partition.metadata.uid)
        if row is None or row.step is not Step.READY:
            return None
        for found in await self._context.hardware.partitions_of(row.place.card):
            if found.place == row.place and found.uuid == row.uuid and found.complete:
                return found
        self._try_now(row.place.card, partition.metadata.uid)
        return None

    async def _make_whole(self, row: ClaimRow, card: Card) -> None:
        """Raise NotReady while the card is cut: a split card cannot be used whole. Then put it into its whole mode."""
        if all(device.admin for device in row.devices if device.device == card.name):
            return
        async with self._context.lock(card.name):
            there = (await self._context.live(card.name)).values()
            if there:
                names = ", ".join(f"{live.profile} at {live.placement.start}" for live in there)
                raise NotReady(f"ResourceClaim {row.key}: {card.name} is still cut into {names}")
            await self._context.hardware.make_whole(card.name)

    async def _note(self, row: ClaimRow, step: ClaimStep) -> None:
        await asyncio.to_thread(self._context.journal.put_claim, replace(row, step=step))
        self._context.at(f"claim.{step.lower()}")

    def _row(self, row: ClaimRow) -> ClaimRow:
        return self._context.journal.claim(row.uid, row.driver) or row

    def _tell(self, row: ClaimRow) -> None:
        """Let statuses follow: who uses what has changed."""
        for device in row.devices:
            if device.partition:
                self._try_now(device.card, device.partition)

    def _call(self, uid: str) -> asyncio.Lock:
        lock = self._calls.get(uid)
        if lock is None:
            lock = self._calls[uid] = asyncio.Lock()
        return lock
