"""Sets devices up for the programs that share them, and takes it back: time slices, and control daemons of MPS.

In: a claim's row (`rows.py:SharingRow`). Out: what its containers need, by device. The row is in the journal before the first act and
until after the last is undone, so that a kill at any point leaves nothing that nobody ends; what was refused leaves it at once, because it
need not be undone. A daemon serves every claim that has a row with its name, and outlives the agent.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    suppress,
)
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from apportion.agent.cdi import CdiFolder
from apportion.agent.devices.values import Edits
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.rows import SharedDevice, SharingRow
from apportion.agent.sharing import acts, daemonfolder
from apportion.agent.sharing.cards import SharedCards
from apportion.agent.sharing.daemons import client_edits, control_daemon
from apportion.agent.sharing.notes import SetupNotes
from apportion.agent.sharing.steps import Steps
from apportion.errors import ApportionError, NotReady, Silent, Unsupported

_log = structlog.get_logger()

_NOTES: Final = "setups"
"""The folder of the notes below the agent's own in /run."""


class Setups:
    """The setups of all claims of this node."""

    def __init__(self, context: AgentContext, state: Path, run: Path, cdi: CdiFolder) -> None:
        """Daemons have their folders in `state`, which host and agent see under one path; `run` gets notes for a lost journal.

        `cdi` has the files of prepared claims: what they name, containers may use.
        """
        self._context = context
        self._folder = state / "mps"
        self._notes = SetupNotes(run / _NOTES)
        self._cdi = cdi
        self._cards = SharedCards(context)
        self._steps = Steps(context, self._folder, self._cards)
        self._failing: Mapping[str, str] = {}
        """Why daemons do not run that claims have, by name."""

    @property
    def failing(self) -> Mapping[str, str]:
        """Why programs cannot share what claims have had set up for it, by device: its control daemon does not run."""
        if not self._failing:
            return {}
        return {
            each.device: f"its control daemon does not run, and programs cannot share it: {self._failing[row.daemon]}"
            for row in self._context.journal.sharing()
            if row.daemon in self._failing
            for each in row.under_mps
        }

    async def set_up(self, row: SharingRow, seconds: float) -> Mapping[str, Edits]:
        """Set a claim's devices up and return what containers need for each, by its name.

        Done already is fine. Raises NotReady while another claim has a device set up otherwise, or when something is not ready
        after `seconds`; Unsupported or another HardwareError when the host or the driver refuses.
        """
        journal = self._context.journal
        before = journal.sharing_of(row.uid, row.driver)
        if row.daemon and (self._folder / row.daemon).is_dir():
            # It may run with the limits of a claim that has gone.
            await self._end_orphan(row.daemon)
        async with self._locked(row, *([before] if before is not None else [])):
            known = journal.sharing_of(row.uid, row.driver)
            if known is None or replace(known, done=False) != replace(row, done=False):
                if known is not None and not await self._undo(known):
                    raise Silent(
                        f"claim {row.uid}: a card of what it had set up before does not answer, or refuses its defaults"
                    )
                await asyncio.to_thread(self._write, replace(row, done=False))
                self._context.at("sharing.intent")
                known = None
            if known is None or not known.done:
                begun: list[SharedDevice] = []
                try:
                    await self._steps.take(row, seconds, begun)
                except (ApportionError, asyncio.CancelledError) as error:
                    # Of what an earlier try has begun something may be set; what is refused never was.
                    tried = () if known is None or isinstance(error, Unsupported) else known.devices
                    await self._narrow(row, [*begun, *tried])
                    raise
                await asyncio.to_thread(self._write, replace(row, done=True))
                self._context.at("sharing.done")
        return client_edits(row, self._folder)

    async def end(self, uid: str, driver: str) -> None:
        """Take back what a claim had set up, as far as no other claim shares it; without a row there is nothing.

        What a card has that does not answer, or refuses its defaults, is taken back later (`keep`), and so is a daemon that was never ready.
        Raises NotReady when something else cannot be taken back now; the row then stays.
        """
        row = self._context.journal.sharing_of(uid, driver)
        if row is not None:
            async with self._locked(row):
                await self._undo(row)

    async def run(self, interval: float) -> None:
        """Keep until cancelled, every so many seconds."""
        while True:
            await self.keep()
            await asyncio.sleep(interval)

    async def look(self) -> None:
        """Find out which daemons do not run, before anything is said of their devices, and note what an agent of before has not."""
        for row in self._context.journal.sharing():
            with suppress(NotReady):
                self._notes.put(row)
        self._failing = dict.fromkeys(await self._ended(), "it has ended, or has not its limits")

    async def keep(self) -> None:
        """Make good what ended by itself, and end what was left."""
        journal = self._context.journal
        await self._recover()
        for row in journal.sharing():
            if journal.claim(row.uid, row.driver) is None:
                try:
                    await self._forget(row)
                except (ApportionError, OSError) as error:
                    _log.warning("sharing.not_kept", claim=row.uid, driver=row.driver, error=str(error))
        self._failing = {daemon: why for daemon in await self._ended() if (why := await self._revive(daemon))}
        try:
            await self._end_orphans()
        except (ApportionError, OSError) as error:
            _log.warning("sharing.orphans_left", error=str(error))

    async def _recover(self) -> None:
        """Take from the notes what the journal has lost, unless its claim is not known and may run all the same."""
        journal = self._context.journal
        for row in self._notes.beyond(journal.sharing()):
            if journal.claim(row.uid, row.driver) is None and self._cdi.mentions(row.uid):
                continue
            try:
                async with self._locked(row):
                    if journal.sharing_of(row.uid, row.driver) is None:
                        await asyncio.to_thread(journal.put_sharing, row)
            except ApportionError as error:
                # Another claim has a device of it set up otherwise: its turn comes after that one.
                _log.warning("sharing.not_recovered", claim=row.uid, driver=row.driver, error=str(error))

    def _write(self, row: SharingRow) -> None:
        self._context.journal.put_sharing(row)
        self._notes.put(row)

    async def _ended(self) -> Collection[str]:
        """Return the daemons that claims have and that do not run with their limits; those known before where it cannot be found out."""
        try:
            there = await self._context.hardware.daemons()
        except (ApportionError, OSError) as error:
            _log.warning("sharing.daemons_unknown", error=str(error))
            return tuple(self._failing)
        # Without a backend for the card nobody has asked for its daemon.
        cards = {card.uuid for card in self._context.hardware.cards.values()}
        return {
            row.daemon: None
            for row in self._context.journal.sharing()
            if row.done and row.daemon and cards.issuperset(each.card_uuid for each in row.under_mps)
            if not there.get(row.daemon) or not await self._has_limits(row)
        }

    async def _has_limits(self, row: SharingRow) -> bool:
        """Say whether a claim's daemon has its limits, as before where it cannot be found out."""
        daemon = control_daemon(row, self._folder)
        if not daemon.commands:
            return True
        try:
            return await self._cards.on(row.under_mps[0], partial(acts.limited, daemon=daemon))
        except (ApportionError, OSError) as error:
            _log.warning("sharing.limits_unknown", claim=row.uid, daemon=row.daemon, error=str(error))
            return row.daemon not in self._failing

    async def _narrow(self, row: SharingRow, begun: Sequence[SharedDevice]) -> None:
        """Leave in a claim's row what was begun, without what was refused and what would have come after it."""
        left = tuple(each for each in row.devices if each in begun)
        if left == row.devices:
            return
        if left:
            await asyncio.to_thread(self._write, replace(row, devices=left, done=False))
        else:
            await self._drop(row)
        if row.daemon and row.daemon not in {other.daemon for other in self._others(row)}:
            # Nobody has asked for the daemon: devices were refused before.
            await asyncio.to_thread(daemonfolder.remove, self._folder / row.daemon)

    async def _revive(self, daemon: str) -> str:
        """Start a daemon anew, with the terms of the first of its claims; returns why that fails, "" when it runs."""
        rows = [row for row in self._context.journal.sharing() if row.daemon == daemon and row.done]
        for row in rows[:1]:
            _log.warning("sharing.daemon_gone", claim=row.uid, daemon=daemon)
            try:
                async with self._locked(row):
                    if self._context.journal.sharing_of(row.uid, row.driver) == row:
                        await self._steps.start(row, 10.0, [])
            except (ApportionError, OSError) as error:
                _log.warning("sharing.not_kept", claim=row.uid, driver=row.driver, error=str(error))
                return str(error)
        return ""

    async def _forget(self, row: SharingRow) -> None:
        async with self._locked(row):
            if self._context.journal.claim(row.uid, row.driver) is None:
                await self._undo(row)

    async def _undo(self, row: SharingRow) -> bool:
        """Take back what no other claim shares; returns whether that was all, or a card is left that does not answer or refuses.

        Raises as `end`. The caller holds the locks.
        """
        others = self._others(row)
        shared = {each.uuid for other in others for each in other.devices}
        if row.daemon and row.daemon not in {other.daemon for other in others}:
            await self._end_daemon(row)
        cleared = [await self._cards.cleared(each) for each in row.devices if each.uuid not in shared]
        if not all(cleared):
            await asyncio.to_thread(self._context.journal.put_sharing, replace(row, done=False), frees=True)
            return False
        await self._drop(row)
        self._context.at("sharing.gone")
        return True

    async def _end_daemon(self, row: SharingRow) -> None:
        """End a row's daemon. Raises NotReady while one that was ready may run.

        One that was never ready has had no client, and one that the host refuses to end has none any more: both are left to `keep`, as orphans.
        """
        try:
            await self._context.hardware.stop_daemon(row.daemon)
            self._context.at("sharing.daemon_ended")
            await asyncio.to_thread(daemonfolder.remove, self._folder / row.daemon)
        except (NotReady, Unsupported) as error:
            if row.done and isinstance(error, NotReady):
                raise
            _log.warning("sharing.daemon_left", claim=row.uid, daemon=row.daemon, error=str(error))

    def _others(self, row: SharingRow) -> list[SharingRow]:
        """Return the rows of other claims and drivers."""
        known = self._context.journal.sharing()
        return [other for other in known if (other.uid, other.driver) != (row.uid, row.driver)]

    async def _drop(self, row: SharingRow) -> None:
        self._notes.drop(row)
        await asyncio.to_thread(self._context.journal.drop_sharing, row.uid, row.driver)

    async def _end_orphans(self) -> None:
        """End daemons that no claim has, and remove their folders: they could not be ended, a journal was lost, or a reboot was between."""
        known = {row.daemon for row in self._context.journal.sharing()}
        left = {path.name for path in self._folder.iterdir()} if self._folder.is_dir() else set()
        for name in (left | set(await self._context.hardware.daemons())) - known:
            try:
                await self._end_orphan(name)
            except (ApportionError, OSError) as error:
                _log.warning("sharing.orphan_left", daemon=name, error=str(error))

    async def _end_orphan(self, name: str) -> None:
        cards = await asyncio.to_thread(daemonfolder.cards_in, self._folder / name)
        async with self._holding({f"mps-{name}", *(f"sharing-{uuid}" for uuid in cards)}):
            rows = self._context.journal.sharing()
            if name in {row.daemon for row in rows} or self._cdi.mentions(str(self._folder / name)):
                return
            _log.warning("sharing.orphan", daemon=name)
            await self._context.hardware.stop_daemon(name)
            shared = {each.uuid for row in rows for each in row.devices}
            left = [SharedDevice(uuid, uuid, uuid, mps=True) for uuid in cards if uuid not in shared]
            if all([await self._cards.cleared(each) for each in left]):
                await asyncio.to_thread(daemonfolder.remove, self._folder / name)

    def _locked(self, *rows: SharingRow) -> AbstractAsyncContextManager[None]:
        """Hold the locks of the rows' daemons and cards, also against another agent process."""
        names = {f"mps-{row.daemon}" for row in rows if row.daemon}
        return self._holding(names | {f"sharing-{each.card_uuid}" for row in rows for each in row.devices})

    @asynccontextmanager
    async def _holding(self, names: Collection[str]) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for name in sorted(names):
                await stack.enter_async_context(self._context.lock(name))
            yield
