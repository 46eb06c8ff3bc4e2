"""Polls the hardware for what no event reports, and passes on what changed.

In: the inventory builder, the hardware, the journal. Out: wake-ups, Events, health in claims' statuses, repaired CDI files. A poll that
fails is tried again; kubelet calls health unknown that was not polled for 30 s.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

import structlog

from apportion.agent.devices.values import Health, LivePartition, PartitionPlace
from apportion.agent.inventorybuilder import InventoryBuilder
from apportion.agent.kubelet.claims import ClaimRef
from apportion.agent.kubelet.claimstatus import HEALTHY, ClaimStatusWriter, DeviceCondition
from apportion.agent.kubelet.health import health_message
from apportion.agent.kubelet.prepare import Preparer
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.nodeevents import NodeEvents
from apportion.agent.rows import PartitionRow, Step
from apportion.agent.wakeup import Wakeup
from apportion.errors import ApportionError, HardwareError

_log = structlog.get_logger()
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
        interval: float,
        files_interval: float,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`changed` is called when slices or partitions may have to follow; intervals are in seconds.

        `rediscover` is awaited now and then to take up cards that did not answer before.
        """
        self._context = context
        self._inventory = inventory
        self._events = events
        self._claim_status = claim_status
        self._changed = changed
        self._rediscover = rediscover
        self._interval = interval
        self._files_interval = files_interval
        self._sleep = sleep
        self._before: tuple[object, object] | None = None
        self._health_written: Mapping[str, Health] = {}
        self.health = Wakeup()
        """Wakes health streams when the health of a card changed."""

    async def run(self) -> None:
        """Poll until cancelled."""
        for look in itertools.count(1):
            await self.check()
            if look % _LOOKS == 0:
                await self._discover()
            await self._sleep(self._interval)

    async def keep_files(self, preparers: Sequence[Preparer]) -> None:
        """Repair the files of claims until cancelled."""
        while True:
            for preparer in preparers:
                await self._repair_files(preparer)
            await self._sleep(self._files_interval)

    async def check(self) -> None:
        """Poll once."""
        try:
            health_changed = await self._inventory.read_health()
            live = await self._context.hardware.partitions()
        except HardwareError as error:
            _log.warning("hardware.unreadable", error=str(error))
            return
        rows = self._context.journal.partitions()
        foreign = _foreign(live, rows)
        now = (frozenset((row.place, row.uuid) for row in foreign), _gone(live, rows))
        if health_changed:
            self.health.wake()
        if health_changed or now != self._before:
            self._before = now
            self._changed()
        self._update_claims(self._inventory.health)
        await self._events.report(self._context.hardware.cards, self._inventory.health, foreign)

    async def _discover(self) -> None:
        try:
            await self._rediscover()
        except HardwareError as error:
            _log.warning("hardware.unreadable", error=str(error))

    def _update_claims(self, health: Mapping[str, Health]) -> None:
        """Write the health of changed cards into the statuses of the claims that use them."""
        before = self._health_written
        changed = {
            name: health.get(name, Health.HEALTHY)
            for name in {**health, **before}
            if health.get(name, Health.HEALTHY) is not before.get(name, Health.HEALTHY)
        }
        self._health_written = health
        if not changed:
            return
        for row in self._context.journal.claims():
            for device in row.devices:
                if device.card in changed:
                    state = changed[device.card]
                    condition = DeviceCondition(
                        device.device,
                        HEALTHY,
                        state is Health.HEALTHY,
                        str(state),
                        health_message(device.card, state),
                    )
                    ref = ClaimRef(row.namespace, row.name, row.uid)
                    self._claim_status.add(ref, row.driver, device.pool, [condition])

    async def _repair_files(self, preparer: Preparer) -> None:
        """Remove files that no claim needs, and write again those of prepared claims that are gone."""
        try:
            await preparer.remove_orphans()
        except OSError as error:
            _log.warning("cdi.unreadable", driver=preparer.driver, error=str(error))
        for row in self._context.journal.claims():
            if row.driver == preparer.driver:
                try:
                    await preparer.restore_files(ClaimRef(row.namespace, row.name, row.uid))
                except (ApportionError, OSError) as error:
                    _log.warning("cdi.not_restored", claim=row.key, driver=row.driver, error=str(error))


def _foreign(live: Iterable[LivePartition], rows: Mapping[str, PartitionRow]) -> tuple[LivePartition, ...]:
    """Return what is on the hardware without being ours."""
    ours = {row.place: row.uuid for row in rows.values()}
    return tuple(found for found in live if ours.get(found.place) not in ("", found.uuid))


def _gone(live: Iterable[LivePartition], rows: Mapping[str, PartitionRow]) -> frozenset[PartitionPlace]:
    """Return where a partition of ours should be and is not."""
    there = {found.place for found in live}
    return frozenset(row.place for row in rows.values() if row.step is Step.READY and row.place not in there)
