"""Polls the hardware for what no event reports, and passes on what changed.

In: the inventory builder, the hardware, the journal. Out: wake-ups, Events, health in claims' statuses, repaired CDI files. A poll that
fails is tried again; kubelet calls health unknown that was not polled for 30 s.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress

import structlog

from apportion.agent.claimhealth import ClaimHealth
from apportion.agent.deviceplugins import plugin_message
from apportion.agent.devices.values import Edits, Health, LivePartition, PartitionPlace
from apportion.agent.inventorybuilder import InventoryBuilder
from apportion.agent.kubelet.claims import ClaimRef
from apportion.agent.kubelet.claimstatus import ClaimStatusWriter
from apportion.agent.kubelet.prepare import Preparer
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.nodeevents import NodeEvents
from apportion.agent.rows import PartitionRow, Step
from apportion.agent.wakeup import Wakeup
from apportion.errors import ApportionError, HardwareError, NotReady

_log = structlog.get_logger()
_PARTITION_LOOKS = 5
"""Polls between two looks at partitions, which take a driver call or more for each; changes of the agent's own are known at once."""
_LOOKS = 15
"""Polls between two discoveries of cards that did not answer; a discovery asks every card of the node."""


class HardwareMonitor:
    """Polls the hardware every few seconds, and the files of claims less often."""

    def __init__(
        self,
        context: AgentContext,
        inventory: InventoryBuilder,
        events: NodeEvents,
        claim_status: ClaimStatusWriter,
        *,
        changed: Callable[[], None],
        rediscover: Callable[[], Awaitable[None]],
        misconfigured: Callable[[], Iterable[str]],
        interval: float,
        files_interval: float,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`changed` is called when slices or partitions may have to follow; intervals are in seconds.

        `rediscover` is awaited now and then to take up cards that did not answer before. `misconfigured` says what of the
        agent's configuration cannot be taken, and why.
        """
        self._context = context
        self._inventory = inventory
        self._events = events
        self._claim_health = ClaimHealth(context.journal.claims, claim_status)
        self._changed = changed
        self._rediscover = rediscover
        self._misconfigured = misconfigured
        self._interval = interval
        self._files_interval = files_interval
        self._sleep = sleep
        self._before: tuple[object, object] | None = None
        self._foreign: tuple[LivePartition, ...] | None = None
        """Partitions that are not ours, as last seen."""
        self._edits: dict[str | PartitionPlace, tuple[str, Edits]] = {}
        """What containers needed at the last poll, by whole card in use and by partition, which may be another one (UUID) with the same needs."""
        self._files_due: set[str] = set()
        """Cards whose claims' files are to be compared."""
        self._some_due = asyncio.Event()
        self.health = Wakeup()
        """Wakes health streams when the health of a card changed."""

    async def run(self) -> None:
        """Poll until cancelled. Raises NotReady when the agent has to start anew, as with a broken journal: who only hears of that tries again, for ever."""
        for look in itertools.count():
            if self._context.journal.broken:
                raise NotReady(self._context.journal.broken)
            await self.check(partitions=look % _PARTITION_LOOKS == 0)
            if look % _LOOKS == 0:
                await self._discover()
                await self._warn()
            await self._sleep(self._interval)

    async def keep_files(self, preparers: Sequence[Preparer]) -> None:
        """Repair the files of claims until cancelled."""
        clock = self._context.clock
        cards: frozenset[str] | None = None
        full_look = 0.0
        while True:
            if cards is None:
                full_look = clock() + self._files_interval
                for preparer in preparers:
                    await self._remove_orphans(preparer)
            live = {found.place: found for found in await self._context.hardware.partitions()}
            for preparer in preparers:
                await self._repair_files(preparer, live, cards)
            cards = await self._cards_due(full_look - clock())

    async def _cards_due(self, seconds: float) -> frozenset[str] | None:
        """Return the cards whose claims' files may be out of date, None when `seconds` are over and all are to be looked at."""
        if seconds <= 0:
            return None
        try:
            async with asyncio.timeout(seconds):
                await self._some_due.wait()
        except TimeoutError:
            return None
        self._some_due.clear()
        cards, self._files_due = frozenset(self._files_due), set()
        return cards

    async def check(self, *, partitions: bool) -> None:
        """Poll the health of all cards once, and what is cut of them."""
        try:
            if await self._inventory.read_health():
                self.health.wake()
                self._changed()
            sick = self._inventory.sick_partitions()
            self._events.sick_partitions(sick.values())
            missing = self._inventory.off_fabric
            texts = (
                f"{card} has not joined the NVLink fabric ({why}): no claim gets it whole"
                for card, why in missing.items()
            )
            await self._events.warn("FabricNotUp", texts)
            failing = self._inventory.failing
            await self._events.failing_devices(failing)
            self._claim_health.update({**self._inventory.health, **dict.fromkeys(sick, Health.SICK)}, failing)
            if partitions or self._foreign is None:
                await self._check_partitions()
        except HardwareError as error:
            _log.warning("hardware.unreadable", error=str(error))
            return
        await self._events.report(self._inventory.health, self._foreign or ())

    async def _check_partitions(self) -> None:
        live, rows = await self._context.looked()
        self._foreign = _foreign(live, rows)
        now = (frozenset((row.place, row.uuid) for row in self._foreign), _gone(live, rows))
        if now != self._before:
            self._before = now
            self._changed()
        await self._follow_edits(live)

    async def _warn(self) -> None:
        """Write Events about drivers that are awaited, and about files that containers will miss."""
        hardware = self._context.hardware
        missing = await self._whole_edits(hardware.cards)
        plugins = plugin_message(hardware.cards.values(), self._context.offered)
        await self._events.warn("BrokenConfiguration", (*self._misconfigured(), plugins))
        await self._events.warn("DriverMissing", hardware.unknown)
        await self._events.warn("DriverFilesMissing", [edits.warning for edits in missing.values()])

    async def _discover(self) -> None:
        try:
            await self._rediscover()
        except HardwareError as error:
            _log.warning("hardware.unreadable", error=str(error))

    async def _follow_edits(self, live: Iterable[LivePartition]) -> None:
        """Have files renewed of claims whose card came into use, or has other device numbers or driver files by now."""
        claims = self._context.journal.claims()
        used = {device.card for row in claims for device in row.devices if device.device == device.card}
        now: dict[str | PartitionPlace, tuple[str, Edits]] = {
            found.place: (found.uuid, found.edits) for found in live
        }
        now |= {card: ("", edits) for card, edits in (await self._whole_edits(used)).items()}
        changed = {key for key, edits in now.items() if self._edits.get(key) != edits}
        # A card that does not answer now is compared with what it was when it answers.
        self._edits = {
            key: edits for key, edits in self._edits.items() if not isinstance(key, str) or key in used
        } | now
        if changed:
            self._files_due |= {key if isinstance(key, str) else key.card for key in changed}
            self._some_due.set()

    async def _whole_edits(self, cards: Iterable[str]) -> dict[str, Edits]:
        """Return what containers need for whole cards now; a card that cannot be asked is left out."""
        found: dict[str, Edits] = {}
        for card in cards:
            with suppress(HardwareError):
                found[card] = await self._context.hardware.edits(card)
        return found

    async def _remove_orphans(self, preparer: Preparer) -> None:
        """Remove files that no claim needs."""
        try:
            await preparer.remove_orphans()
        except (ApportionError, OSError) as error:
            _log.warning("cdi.orphans_left", driver=preparer.driver, error=str(error))

    async def _repair_files(
        self,
        preparer: Preparer,
        live: Mapping[PartitionPlace, LivePartition],
        cards: frozenset[str] | None,
    ) -> None:
        """Write files of prepared claims anew that are gone or out of date; of claims with one of these cards only, if given."""
        for row in self._context.journal.claims():
            here = cards is None or any(device.card in cards for device in row.devices)
            if here and row.driver == preparer.driver:
                try:
                    await preparer.restore_files(ClaimRef(row.namespace, row.name, row.uid), live)
                except (ApportionError, OSError) as error:
                    _log.warning("cdi.not_restored", claim=row.key, driver=row.driver, error=str(error))


def _foreign(live: Iterable[LivePartition], rows: Mapping[str, PartitionRow]) -> tuple[LivePartition, ...]:
    """Return what is on the hardware without being ours."""
    ours = {row.place: row for row in rows.values()}
    return tuple(each for each in live if each.place not in ours or not ours[each.place].is_at(each))


def _gone(live: Iterable[LivePartition], rows: Mapping[str, PartitionRow]) -> frozenset[PartitionPlace]:
    """Return where a partition of ours should be and is not, or only half of it is."""
    there = {found.place: found for found in live}
    ready = (row for row in rows.values() if row.step is Step.READY)
    return frozenset(row.place for row in ready if row.place not in there or row.is_half(there[row.place]))
