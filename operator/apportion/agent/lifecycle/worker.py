"""The worker of one card: the only task that changes its partitions.

In: wake-ups. Out: rounds. A round compares journal, API and hardware, and brings every partition of the card as far as it goes:
first it removes, then it creates.
"""

import asyncio
from collections.abc import Collection, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Final

import structlog

from apportion.agent.devices.values import Card, LivePartition, PartitionPlace
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.lifecycle.cut import cut, row_from_hardware
from apportion.agent.lifecycle.desiredpartitions import is_deleting
from apportion.agent.lifecycle.release import is_leaving, release, remove_finalizer
from apportion.agent.lifecycle.report import PartitionOutcome, as_asked, report
from apportion.agent.lifecycle.waits import Wait, holder_of
from apportion.agent.rows import PartitionRow, Step
from apportion.api.partition import Partition, Phase
from apportion.cluster.kinds import PARTITIONS
from apportion.errors import ApiError, ApportionError, HardwareError, Lost, NotReady, Overtaken, Unreachable

_LONGEST = 60.0
"""Seconds after which a round is made without a wake-up: people change partitions on the node."""
_UNSEEN: Final = frozenset({"Lost", "NoJournal"})
"""Reasons for which nobody knows what is on the card, or can write it down."""
_log = structlog.get_logger()


class CardWorker:
    """One task per card."""

    def __init__(self, context: AgentContext, card: str) -> None:
        """`card` is a device name; Partitions of a card that the node has not become Failed."""
        self._context = context
        self.card = card
        self._wakeup = asyncio.Event()
        self._everything = True
        self._some: set[str] = set()
        """Partition UIDs to look at, unless everything is."""
        self._waits: dict[str, Wait] = {}
        self._live: Mapping[PartitionPlace, LivePartition] | None = None
        """What was on the card in this round when it was last looked at."""

    def wake(self) -> None:
        """Have the next round look at all partitions of the card."""
        self._everything = True
        self._wakeup.set()

    def try_now(self, uid: str) -> None:
        """Try this Partition UID now, even if it failed: a prepare call needs it."""
        self._waits.pop(uid, None)
        self._some.add(uid)
        self._wakeup.set()

    async def run(self) -> None:
        """Work until cancelled. Nothing that goes wrong on one card ends the agent."""
        pause: float | None = 0.0
        while True:
            if pause != 0.0:
                try:
                    async with asyncio.timeout(_LONGEST if pause is None else pause):
                        await self._wakeup.wait()
                except TimeoutError:
                    self._everything = True
            self._wakeup.clear()
            try:
                pause = await self.round()
            except ApportionError as error:
                self._everything = True
                _log.warning("card.round_failed", card=self.card, error=str(error))
                pause = self._context.timeouts.last_retry

    async def round(self) -> float | None:
        """Make one round; returns the seconds until the next one, None if none is due."""
        context = self._context
        everything, some = self._everything, self._some
        self._everything, self._some = False, set()
        self._live, due = None, list[float]()
        unseen = await self._recover_rows()
        for row in context.journal.partitions_of(self.card):
            if not everything and row.uid not in some:
                continue
            partition = context.desired.get(row.uid)
            if partition is None or is_deleting(partition):
                due += await self._apart(row.uid, self._remove(row, partition))
        for uid, partition in context.desired.of(self.card).items():
            if not everything and uid not in some:
                continue
            leaving = is_deleting(partition)
            work = self._let_go(partition, unseen) if leaving else self._create_or_keep(partition)
            due += await self._apart(uid, work)
        for uid in tuple(self._waits):
            if context.desired.get(uid) is None and context.journal.partition(uid) is None:
                del self._waits[uid]
        for device in [device for device in context.unsupported if not context.desired.of_device(device)]:
            # No Partition asks for it any more; the next one may try again.
            context.note(context.unsupported, device, holds=False)
        context.partition_changed.wake()
        if not everything:
            # Waiting partitions that were not looked at keep the time at which they are due.
            due += [max(wait.due - context.clock(), 0.01) for wait in self._waits.values()]
        return min(due, default=None)

    async def _apart(self, uid: str, work: Coroutine[Any, Any, list[float]]) -> list[float]:
        """Do something about one partition. No other one, whose holder may go elsewhere, is held up by hardware that cannot be asked about it, or a server that refuses its object."""
        try:
            return await work
        except Overtaken:
            # The newer version comes with its event; if it came already, look again at once.
            self._some.add(uid)
            return [self._context.timeouts.first_retry]
        except Unreachable:
            raise
        except (HardwareError, ApiError) as error:
            _log.warning("partition.not_kept", card=self.card, uid=uid, error=str(error))
            return [self._pause(uid)]

    async def _recover_rows(self) -> set[str]:
        """Write rows for Partitions in deletion that a lost journal does not have, so that they are removed from the hardware.

        Returns the UIDs of those for which the hardware cannot be asked, or no row be written.
        """
        context, unseen = self._context, set[str]()
        card = context.hardware.cards.get(self.card)
        for uid, partition in context.desired.of(self.card).items():
            if card is None or not is_deleting(partition) or context.journal.partition(uid) is not None:
                continue
            async with context.lock(self.card):
                try:
                    row = row_from_hardware(context, card, partition, await context.live(self.card))
                    if row is not None and context.journal.partition(uid) is None:
                        _log.warning("partition.recovered", partition=row.name, place=str(row.place))
                        await asyncio.to_thread(context.journal.put_partition, row)
                except (HardwareError, NotReady):
                    unseen.add(uid)
        return unseen

    async def _may_be_there(self, partition: Partition) -> bool:
        """Say whether a lost journal may have had a row for a Partition on a card that the node does not show (yet)."""
        context, uid = self._context, partition.metadata.uid
        if self.card in context.hardware.cards or context.journal.partition(uid) is not None:
            return False
        if not partition.status.uuid and uid not in context.journal.interrupted():
            return False
        try:
            await context.live(self.card)
        except Lost:
            return True
        return False

    async def _let_go(self, partition: Partition, unseen: Collection[str]) -> list[float]:
        """Let the object of a partition go that has no row, unless there may be something of it, as of the `unseen` ones (UIDs)."""
        uid = partition.metadata.uid
        if uid in unseen or await self._may_be_there(partition):
            return [self._pause(uid)]
        if self._context.journal.partition(uid) is None:
            await remove_finalizer(self._context, partition)
        return []

    async def _exists_in_api(self, row: PartitionRow) -> bool:
        """Ask the API for a Partition that our watch has not seen; another agent may have seen it first."""
        found = await self._context.client.list(PARTITIONS, fieldSelector=f"metadata.name={row.name}")
        return any(item["metadata"]["uid"] == row.uid for item in found.get("items") or ())

    async def _remove(self, row: PartitionRow, partition: Partition | None) -> list[float]:
        context = self._context
        if partition is None and await self._exists_in_api(row):
            return [self._pause(row.uid)]
        async with context.lock(self.card):
            # Read again under the lock: another agent may have continued meanwhile.
            now = context.journal.partition(row.uid)
            # It was refused before by the former agent, whose clock nobody has.
            refused = now is not None and now.step is Step.RELEASING and row.uid not in self._waits
            outcome = await release(context, now, await context.live(self.card)) if now is not None else None
        if outcome is None:
            context.note(context.stuck, row.uid, holds=False)
            if partition is not None:
                await remove_finalizer(context, context.desired.get(partition.metadata.uid) or partition)
            return []
        if partition is not None:
            await report(context, partition, context.journal.partition(row.uid), outcome)
        if outcome.reason == "InUse":
            context.note(context.stuck, row.uid, holds=False)
            return []  # An unprepare wakes this worker; the hardware reports nothing.
        if refused or self._waited(row.uid) >= context.timeouts.removal:
            context.note(context.stuck, row.uid, holds=True)
        return [self._pause(row.uid)]

    async def _create_or_keep(self, partition: Partition) -> list[float]:
        context = self._context
        uid, failed = partition.metadata.uid, context.timeouts.failed
        wait = self._waits.get(uid)
        if wait is not None and wait.failed_for(partition, failed) and context.clock() < wait.due:
            return [wait.due - context.clock()]
        card = context.hardware.cards.get(self.card)
        if card is None:
            outcome = await self._without_card(context.journal.partition(uid))
        else:
            over = asyncio.Event()
            showing = asyncio.create_task(self._show(partition, over))
            try:
                async with context.lock(self.card):
                    outcome = await self._cut(card, partition)
                over.set()
                await showing
            finally:
                showing.cancel()
        row = context.journal.partition(uid)
        context.note(context.unsupported, partition.spec.device, holds=outcome.reason == "Unsupported")
        if row is None and partition.status.uuid and outcome.reason in _UNSEEN:
            # The journal was lost, and the status alone says what was made, until it can be looked for and written down.
            return [self._pause(uid)]
        await report(context, as_asked(context, partition), row, outcome)
        if outcome.ready:
            context.begun.forget(uid)
        if outcome.phase is Phase.FAILED and (outcome.retry or outcome.reason == "Unsupported"):
            # The holder sees Failed and may go to another node: events on the card are no reason to cut it earlier.
            self._waits[uid] = Wait(context.clock(), failed, context.clock() + failed, holder_of(partition))
            return [failed]
        if not outcome.retry:
            self._waits.pop(uid, None)
            return []
        return [self._pause(uid)]

    async def _show(self, partition: Partition, over: asyncio.Event) -> None:
        """Have a new object say that it is being cut, unless that is over first. The status that is written in the end counts."""
        if partition.status.phase is not None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._context.timeouts.shown):
                await over.wait()
            return
        try:
            await report(self._context, partition, None, PartitionOutcome(Phase.CREATING, "Cutting"))
        except ApportionError as error:
            _log.info("partition.not_shown", partition=partition.metadata.name, error=str(error))

    async def _without_card(self, row: PartitionRow | None) -> PartitionOutcome:
        """Return what a Partition is on a card that the node does not show. Raises Lost for one that was made on a known card."""
        try:
            await self._context.live(self.card)
        except Lost as error:
            if row is not None and row.step is not Step.INTENT:
                raise
            return PartitionOutcome(Phase.FAILED, "Lost", str(error), retry=True)
        return PartitionOutcome(Phase.FAILED, "UnknownCard", f"this node has no card {self.card}")

    async def _cut(self, card: Card, partition: Partition) -> PartitionOutcome:
        context = self._context
        row = context.journal.partition(partition.metadata.uid)
        try:
            live = await self._live_for(row)
        except Lost as error:
            if row is not None and row.step is not Step.INTENT:
                # It was made, and whether it is gone is unknown.
                raise
            return PartitionOutcome(Phase.FAILED, "Lost", str(error), retry=True)
        return await cut(context, card, partition, live, may_wait=self._may_wait(partition))

    async def _live_for(self, row: PartitionRow | None) -> Mapping[PartitionPlace, LivePartition]:
        """Return what is on the card: as seen earlier in this round if that shows the row's partition, which then is to be kept.

        A look takes several driver calls for each partition. An agent that removes one says so in the row first. Raises Lost.
        """
        known = self._live or {}
        there = known.get(row.place) if row is not None and row.step is Step.READY else None
        if row is None or there is None or there.uuid != row.uuid:
            known = self._live = await self._context.live(self.card)
        return known

    def _may_wait(self, partition: Partition) -> bool:
        """Say whether to wait for room: another partition is about to go, or the timeout for room has not ended."""
        context, timeouts = self._context, self._context.timeouts
        here = context.desired.of(self.card)
        others = {uid: other for uid, other in here.items() if uid != partition.metadata.uid}
        leaving = (uid for uid, other in others.items() if is_leaving(context, other))
        if any(self._waited(uid) < timeouts.removal for uid in leaving):
            return True
        idle = any(other.spec.holder is None for other in others.values())
        return self._waited(partition.metadata.uid) < (timeouts.idle if idle else timeouts.room)

    def _waited(self, uid: str) -> float:
        """Return for how many seconds the cut or the removal of a partition has been refused."""
        wait = self._waits.get(uid)
        return self._context.clock() - wait.since if wait is not None else 0.0

    def _pause(self, uid: str) -> float:
        timeouts = self._context.timeouts
        wait = self._waits.get(uid)
        if wait is None or wait.pause >= timeouts.failed:
            wait = self._waits[uid] = Wait(self._context.clock(), timeouts.first_retry, 0.0)
        else:
            wait.pause = min(wait.pause * 2, timeouts.last_retry)
        wait.due = self._context.clock() + wait.pause
        return wait.pause
