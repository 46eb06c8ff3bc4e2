"""The worker of one card: the only one who changes its partitions.

In: a ring of the bell. Out: rounds. A round compares journal, API and hardware, and moves every partition of the card as
far as it goes: first what has to leave, then what has to come.
"""

import asyncio
from dataclasses import dataclass

import structlog

from apportion.agent.devices.values import Card
from apportion.agent.lifecycle.cut import cut, recognized
from apportion.agent.lifecycle.desk import Desk
from apportion.agent.lifecycle.outcome import Outcome, Phase
from apportion.agent.lifecycle.release import let_go, release
from apportion.agent.lifecycle.report import report
from apportion.agent.lifecycle.wish import Wish
from apportion.agent.rows import PartitionRow, Step
from apportion.cluster.kinds import PARTITIONS
from apportion.errors import ApportionError, Lost, Overtaken

_LONGEST = 60.0
"""Seconds after which a card is looked at although nobody rang: people cut and remove by hand."""
_log = structlog.get_logger()


@dataclass(slots=True)
class _Wait:
    """How long a partition has been waiting, and when it is tried again."""

    since: float
    """When it was first refused."""
    pause: float
    due: float
    holder: str = ""
    """UID of whom it failed for."""

    def failed_for(self, wish: Wish, pause: float) -> bool:
        """Say whether it failed, for the same holder; `pause` is the one of failures."""
        return self.pause >= pause and self.holder == _holder(wish)


def _holder(wish: Wish) -> str:
    return wish.holder.uid if wish.holder is not None else ""


class CardWorker:
    """One task per card."""

    def __init__(self, desk: Desk, card: str) -> None:
        """`card` is a device name; a card that is not there only gets answers that say so."""
        self._desk = desk
        self.card = card
        self._bell = asyncio.Event()
        self._everything = True
        self._some: set[str] = set()
        """Partition UIDs to look at, unless everything is."""
        self._waits: dict[str, _Wait] = {}

    def ring(self) -> None:
        """Say that something about this card changed: look at everything."""
        self._everything = True
        self._bell.set()

    def urge(self, partition: str) -> None:
        """Try this partition now, even if it failed: somebody needs it."""
        self._waits.pop(partition, None)
        self._some.add(partition)
        self._bell.set()

    async def run(self) -> None:
        """Work until cancelled. Nothing that goes wrong on one card ends the agent."""
        pause: float | None = 0.0
        while True:
            if pause != 0.0:
                try:
                    async with asyncio.timeout(_LONGEST if pause is None else pause):
                        await self._bell.wait()
                except TimeoutError:
                    self._everything = True
            self._bell.clear()
            try:
                pause = await self.round()
            except Overtaken:
                self._everything = True
                # The newer version comes with its event; if it came already, look again at once.
                pause = self._desk.patience.first_retry
            except ApportionError as error:
                self._everything = True
                _log.warning("card.round_failed", card=self.card, error=str(error))
                pause = self._desk.patience.last_retry

    async def round(self) -> float | None:
        """Look at what needs a look; returns the seconds until the next one, None if none is due."""
        desk = self._desk
        everything, some = self._everything, self._some
        self._everything, self._some = False, set()
        due: list[float] = []
        await self._recall()
        for row in desk.journal.partitions_of(self.card):
            if not everything and row.uid not in some:
                continue
            wish = desk.wishes.get(row.uid)
            if wish is None or wish.deleting:
                due += await self._leave(row, wish)
        for wish in desk.wishes.of(self.card).values():
            if not everything and wish.uid not in some:
                continue
            if wish.deleting:
                if desk.journal.partition(wish.uid) is None:
                    await let_go(desk, wish)
            else:
                due += await self._come(wish)
        self._waits = {
            uid: wait
            for uid, wait in self._waits.items()
            if desk.wishes.get(uid) is not None or desk.journal.partition(uid) is not None
        }
        for device in [device for device in desk.refused if desk.wishes.of_device(device) is None]:
            # Nobody wants it any more; the next one who does may try.
            desk.refused.discard(device)
            desk.published()
        desk.moved.ring()
        if not everything:
            # Those that wait were not looked at: their turn comes as it was.
            due += [max(wait.due - desk.clock(), 0.01) for wait in self._waits.values()]
        return min(due, default=None)

    async def _recall(self) -> None:
        """Take up again what is to be removed and the journal has lost: else its object would go and it would stay."""
        desk = self._desk
        card = desk.hardware.cards.get(self.card)
        for wish in desk.wishes.of(self.card).values():
            if card is None or not wish.deleting or desk.journal.partition(wish.uid) is not None:
                continue
            async with desk.lock(self.card):
                row = recognized(desk, card, wish, await desk.live(self.card))
                if row is not None and desk.journal.partition(wish.uid) is None:
                    _log.warning("partition.recalled", partition=row.name, place=str(row.spot))
                    await asyncio.to_thread(desk.journal.put_partition, row)

    async def _wanted_after_all(self, row: PartitionRow) -> bool:
        """Ask the API whether a partition that our watch does not know exists: another agent may have heard of it first."""
        found = await self._desk.client.list(PARTITIONS, fieldSelector=f"metadata.name={row.name}")
        return any(item["metadata"]["uid"] == row.uid for item in found.get("items") or ())

    async def _leave(self, row: PartitionRow, wish: Wish | None) -> list[float]:
        desk = self._desk
        if wish is None and await self._wanted_after_all(row):
            return [self._pause(row.uid)]
        async with desk.lock(self.card):
            # Read again under the lock: another agent may have gone on meanwhile.
            now = desk.journal.partition(row.uid)
            outcome = await release(desk, now, await desk.live(self.card)) if now is not None else None
        if outcome is None:
            if wish is not None:
                await let_go(desk, desk.wishes.get(wish.uid) or wish)
            return []
        if wish is not None:
            await report(desk, wish, desk.journal.partition(row.uid), outcome)
        # An unprepare rings; only the hardware does not.
        return [] if outcome.reason == "InUse" else [self._pause(row.uid)]

    async def _come(self, wish: Wish) -> list[float]:
        desk = self._desk
        wait = self._waits.get(wish.uid)
        if wait is not None and wait.failed_for(wish, desk.patience.failed) and desk.clock() < wait.due:
            return [wait.due - desk.clock()]
        card = desk.hardware.cards.get(self.card)
        if card is None:
            outcome = Outcome(Phase.FAILED, "UnknownCard", f"this node has no card {self.card}")
        else:
            if not wish.status.get("phase"):
                await report(desk, wish, None, Outcome(Phase.CREATING, "Cutting"))
                wish = desk.wishes.get(wish.uid) or wish
            async with desk.lock(self.card):
                outcome = await self._cut(card, wish)
        row = desk.journal.partition(wish.uid)
        self._note_refusal(wish, outcome)
        await report(desk, desk.wishes.get(wish.uid) or wish, row, outcome)
        if outcome.phase is Phase.FAILED and (outcome.again or outcome.reason == "Unsupported"):
            # Whoever waits was told to go elsewhere: what happens on the card meanwhile is no reason to cut it after all.
            failed = desk.patience.failed
            self._waits[wish.uid] = _Wait(desk.clock(), failed, desk.clock() + failed, _holder(wish))
            return [failed]
        if not outcome.again:
            self._waits.pop(wish.uid, None)
            return []
        return [self._pause(wish.uid)]

    async def _cut(self, card: Card, wish: Wish) -> Outcome:
        desk = self._desk
        try:
            live = await desk.live(self.card)
        except Lost as error:
            row = desk.journal.partition(wish.uid)
            if row is not None and row.step is not Step.INTENT:
                # It was made, and nobody can say that it is gone.
                raise
            return Outcome(Phase.FAILED, "Lost", str(error), again=True)
        return await cut(desk, card, wish, live, hopeful=self._hopeful(wish))

    def _hopeful(self, wish: Wish) -> bool:
        """Say whether room may come: another partition of the card is leaving or may be taken away, or we just came."""
        desk = self._desk
        wait = self._waits.get(wish.uid)
        waited = desk.clock() - wait.since if wait is not None else 0.0
        others = [other for other in desk.wishes.of(self.card).values() if other.uid != wish.uid]
        if any(other.deleting for other in others):
            return True
        idle = any(other.holder is None for other in others)
        return waited < (desk.patience.idle if idle else desk.patience.room)

    def _note_refusal(self, wish: Wish, outcome: Outcome) -> None:
        """Let the slices say which places the driver refuses for good, and take it back when one works after all."""
        refused = self._desk.refused
        if (outcome.reason == "Unsupported") != (wish.device in refused):
            refused ^= {wish.device}
            self._desk.published()

    def _pause(self, uid: str) -> float:
        patience = self._desk.patience
        wait = self._waits.get(uid)
        if wait is None or wait.pause >= patience.failed:
            wait = self._waits[uid] = _Wait(self._desk.clock(), patience.first_retry, 0.0)
        else:
            wait.pause = min(wait.pause * 2, patience.last_retry)
        wait.due = self._desk.clock() + wait.pause
        return wait.pause
