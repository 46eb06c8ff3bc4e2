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
from apportion.agent.devices.values import Card, Kind, LivePartition
from apportion.agent.kubelet.claims import ClaimRef, granted, holds, read
from apportion.agent.kubelet.metadata import Described, MetadataFolder
from apportion.agent.kubelet.plan import Prepared, plan, said, unfit
from apportion.agent.kubelet.reports import DeviceNews, Reports
from apportion.agent.lifecycle.desk import Desk
from apportion.agent.lifecycle.wish import Wish
from apportion.agent.rows import ClaimDevice, ClaimRow, ClaimStep, PartitionRow, Step
from apportion.agent.slices.device import described
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
        desk: Desk,
        cdi: CdiFolder,
        metadata: MetadataFolder,
        *,
        driver: str,
        kind: Kind,
        node: str,
        urge: Callable[[str, str], None],
        reports: Reports | None = None,
        claims: Callable[[ClaimRef], Awaitable[Claim | None]] | None = None,
        freed: Callable[[ClaimRow], None] = lambda _: None,
        timed: Callable[[float], None] = lambda _: None,
        patience: float = 30.0,
    ) -> None:
        """`urge(card, partition UID)` asks the card's worker to try now.

        `reports` tells the claim how its devices are; `claims` reads a claim, by default from the API. `freed(row)` is told after an unprepare, `timed(seconds)` how long a successful prepare took. `patience` (seconds)
        stays below kubelet's 45.
        """
        self._desk = desk
        self._cdi = cdi
        self._metadata = metadata
        self._reports = reports
        self._claims = claims or (lambda ref: read(desk.client, ref))
        self.driver = driver
        self._kind = kind
        self._node = node
        self._urge = urge
        self._freed = freed
        self._timed = timed
        self._patience = patience
        # A lock lives as long as a call holds or awaits it.
        self._calls: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def prepare(self, ref: ClaimRef) -> tuple[Prepared, ...]:
        """Make the claim's devices of this driver usable. Raises ApportionError; kubelet tries again."""
        began = time.monotonic()
        async with self._call(ref.uid):
            claim = await self._claims(ref)
            results = granted(claim, ref, self.driver, self._node)
            try:
                row, injections = await self._bring(claim, ref, results, self._patience)
            except ApportionError as error:
                self._report(ref, [DeviceNews.failed(result.device.name, error) for result in results])
                raise
            self._report(ref, [DeviceNews.ready(injection) for injection in injections])
            if row.step is not ClaimStep.PREPARED:
                await self._note(row, ClaimStep.INJECTED)
                await self._note(row, ClaimStep.PREPARED)
                self._tell(row)
                self._timed(time.monotonic() - began)
                _log.info(
                    "claim.prepared",
                    claim=ref.key,
                    driver=self.driver,
                    devices=[device.device for device in row.devices],
                    seconds=round(time.monotonic() - began, 3),
                )
        return tuple(
            Prepared(device.requests, device.pool, device.device, device.cdi) for device in row.devices
        )

    async def restore(self, ref: ClaimRef) -> bool:
        """Make the files of a prepared claim again, if somebody removed or damaged them; returns whether it had to.

        Kubelet does not ask again while it lives, but a container that restarts needs them. Raises ApportionError.
        """
        async with self._call(ref.uid):
            row = self._desk.journal.claim(ref.uid, self.driver)
            if row is None or row.step is not ClaimStep.PREPARED or self._cdi.whole(self.driver, ref.uid):
                return False
            claim = await self._claims(ref)
            if claim is None or claim.allocation is None:
                return False
            await self._bring(claim, ref, granted(claim, ref, self.driver, self._node), _LOOK)
            _log.warning("cdi.restored", claim=ref.key, driver=self.driver)
            return True

    async def sweep(self) -> int:
        """Remove the files of claims that nobody has prepared or is preparing; returns of how many claims.

        They are left by a crash, a reboot, or a journal that was lost. Files that are not ours are not looked at.
        """
        journal = self._desk.journal
        found = await asyncio.to_thread(lambda: self._cdi.claims(self.driver) | self._metadata.claims())
        known = {row.uid for row in journal.claims() if row.driver == self.driver}
        for uid in sorted(found - known):
            async with self._call(uid):
                # The journal looks again and removes in one transaction: another agent may be about to begin.
                await asyncio.to_thread(journal.unless_claimed, uid, self.driver, partial(self._forget, uid))
        return len(found - known)

    def _forget(self, uid: str) -> None:
        self._cdi.remove(self.driver, uid)
        self._metadata.remove(uid)
        _log.info("cdi.orphan_removed", claim=uid, driver=self.driver)

    async def _bring(
        self, claim: Claim | None, ref: ClaimRef, results: Sequence[DeviceResult], patience: float
    ) -> tuple[ClaimRow, list[Injection]]:
        """Bring hardware, journal and files to where containers can use the devices."""
        if claim is None:
            raise NotReady(f"ResourceClaim {ref.key} does not exist")
        row = await self._reserve(ref, results)
        rows = [await self._settle(row, device, patience) for device in row.devices]
        row = replace(row, devices=tuple(device for device, _ in rows))
        injections = [injection for _, injection in rows]
        named = {
            name: tuple(result.request for result in results if result.device.name == name)
            for name in (device.device for device in row.devices)
        }
        devices = [
            Described(named[each.device], self._node, each.device, self._attributes(each))
            for each in injections
        ]
        mounts = await asyncio.to_thread(self._metadata.write, claim, devices)
        injections = [replace(each, own=tuple(mounts[name] for name in each.requests)) for each in injections]
        await asyncio.to_thread(self._cdi.write, self.driver, ref.uid, injections)
        self._desk.at("cdi.written")
        return row, injections

    def _attributes(self, each: Injection) -> dict[str, object]:
        wish = self._desk.wishes.of_device(each.device) if each.partition else None
        return described(
            each.device, self._desk.hardware.cards, each.uuid, layout=wish.layout if wish is not None else ""
        )

    def _report(self, ref: ClaimRef, news: Sequence[DeviceNews]) -> None:
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
            row = self._desk.journal.claim(ref.uid, self.driver)
            if row is None or row.step is ClaimStep.PREPARED:
                return False
            if holds(await self._claims(ref), self.driver, {device.device for device in row.devices}):
                return False
            await self._undo(ref)
            return True

    async def _undo(self, ref: ClaimRef) -> None:
        row = self._desk.journal.claim(ref.uid, self.driver)
        if row is not None:
            await self._note(row, ClaimStep.UNPREPARING)
        await asyncio.to_thread(self._cdi.remove, self.driver, ref.uid)
        await asyncio.to_thread(self._metadata.remove, ref.uid)
        self._desk.at("cdi.removed")
        if row is not None:
            await asyncio.to_thread(self._desk.journal.drop_claim, ref.uid, self.driver)
            self._desk.at("claim.gone")
            self._tell(row)
            self._freed(row)
            _log.info("claim.unprepared", claim=ref.key, driver=self.driver)

    async def _reserve(self, ref: ClaimRef, results: Sequence[DeviceResult]) -> ClaimRow:
        """Write down that we begin, or return where we were. Raises NotReady naming the holder of a device."""
        cards = dict(self._desk.hardware.cards)
        devices = plan(ref, results, cards, self._kind)
        known = self._desk.journal.claim(ref.uid, self.driver)
        if known is not None and [d.device for d in known.devices] == [d.device for d in devices]:
            if known.step is ClaimStep.UNPREPARING:
                known = replace(known, step=ClaimStep.PREPARING)
            return known
        if known is not None and known.step is ClaimStep.PREPARED:
            raise NotReady(
                f"ResourceClaim {ref.key} was prepared with other devices before; it is unprepared first"
            )
        row = ClaimRow(ref.uid, self.driver, ref.namespace, ref.name, ClaimStep.PREPARING, devices)
        await asyncio.to_thread(self._desk.journal.reserve, row)
        self._desk.at("claim.preparing")
        return row

    async def _settle(
        self, row: ClaimRow, device: ClaimDevice, patience: float
    ) -> tuple[ClaimDevice, Injection]:
        """Make sure that one device is there for this claim, and say what a container needs for it."""
        card = self._desk.hardware.cards[device.card]
        if device.device == card.name:
            await self._make_whole(row, card)
            return device, Injection(
                device.device, device.requests, card.uuid, partition=False, edits=card.edits
            )
        deadline = self._desk.clock() + patience
        why = f"no Partition object for device {device.device} is there yet"
        urged = False
        while self._desk.clock() < deadline:
            async with self._desk.lock(card.name):
                wish = self._desk.wishes.of_device(device.device)
                why = unfit(wish, row, device)
                if wish is not None and not why:
                    why = f"partition {wish.name} is not cut yet: {said(wish)}"
                    try:
                        live = await self._live(wish)
                    except HardwareError as error:
                        # What was seen last on a card that does not answer is no ground to start a container on.
                        live, why = None, f"partition {wish.name} cannot be seen: {error}"
                    if live is not None:
                        found = replace(device, partition=wish.uid)
                        if found != device:
                            # Inside the card's lock: from here on no worker removes it.
                            devices = tuple(found if d == device else d for d in self._row(row).devices)
                            await asyncio.to_thread(
                                self._desk.journal.put_claim, replace(self._row(row), devices=devices)
                            )
                            self._desk.at("claim.bound")
                        return found, Injection(
                            device.device, device.requests, live.uuid, partition=True, edits=live.edits
                        )
            if wish is not None and not urged:
                self._urge(card.name, wish.uid)
                urged = True
            await self._desk.moved.wait(min(_LOOK, max(deadline - self._desk.clock(), 0.01)))
        raise NotReady(f"ResourceClaim {row.key}: {why}")

    async def _live(self, wish: Wish) -> LivePartition | None:
        """Return the partition if journal and hardware agree that it is there and whole; raises HardwareError."""
        row: PartitionRow | None = self._desk.journal.partition(wish.uid)
        if row is None or row.step is not Step.READY:
            return None
        for found in await self._desk.hardware.partitions_of(row.spot.card):
            if found.spot == row.spot and found.uuid == row.uuid and found.complete:
                return found
        self._urge(row.spot.card, wish.uid)
        return None

    async def _make_whole(self, row: ClaimRow, card: Card) -> None:
        """Raise NotReady while the card is cut: a split card cannot be used whole. Then put it into its whole mode."""
        if all(device.admin for device in row.devices if device.device == card.name):
            return
        async with self._desk.lock(card.name):
            there = (await self._desk.live(card.name)).values()
            if there:
                names = ", ".join(f"{live.profile} at {live.placement.start}" for live in there)
                raise NotReady(f"ResourceClaim {row.key}: {card.name} is still cut into {names}")
            await self._desk.hardware.make_whole(card.name)

    async def _note(self, row: ClaimRow, step: ClaimStep) -> None:
        await asyncio.to_thread(self._desk.journal.put_claim, replace(row, step=step))
        self._desk.at(f"claim.{step.lower()}")

    def _row(self, row: ClaimRow) -> ClaimRow:
        return self._desk.journal.claim(row.uid, row.driver) or row

    def _tell(self, row: ClaimRow) -> None:
        """Let statuses follow: who uses what has changed."""
        for device in row.devices:
            if device.partition:
                self._urge(device.card, device.partition)

    def _call(self, uid: str) -> asyncio.Lock:
        lock = self._calls.get(uid)
        if lock is None:
            lock = self._calls[uid] = asyncio.Lock()
        return lock
