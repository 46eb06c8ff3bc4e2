"""Sets devices up for the programs that share them, and takes it back: time slices, and control daemons of MPS.

In: a claim's row (`rows.py:SharingRow`). Out: what its containers need, by device. The row is in the journal before the first act and
until after the last is undone, so that a kill at any point leaves nothing that nobody ends. A daemon serves every claim that has a
row with its name, and outlives the agent.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import structlog

from apportion.agent.cdi import CdiFolder
from apportion.agent.devices.sharing import Sharing, TimeSlice
from apportion.agent.devices.values import Edits
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.rows import SharedDevice, SharingRow
from apportion.agent.sharing import acts, daemonfolder
from apportion.agent.sharing.daemons import client_edits, control_daemon
from apportion.agent.sharing.notes import SetupNotes
from apportion.errors import ApportionError, Lost, NotReady, Silent

_log = structlog.get_logger()
R = TypeVar("R")

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
        async with self._locked(row, *([before] if before is not None else [])):
            known = journal.sharing_of(row.uid, row.driver)
            if known is None or replace(known, done=False) != replace(row, done=False):
                if known is not None and not await self._undo(known):
                    raise Silent(f"claim {row.uid}: a card of what it had set up before does not answer")
                await asyncio.to_thread(self._write, replace(row, done=False))
                self._context.at("sharing.intent")
                known = None
            if known is None or not known.done:
                await self._act(row, seconds)
                await asyncio.to_thread(self._write, replace(row, done=True))
                self._context.at("sharing.done")
        return client_edits(row, self._folder)

    async def end(self, uid: str, driver: str) -> None:
        """Take back what a claim had set up, as far as no other claim shares it; without a row there is nothing.

        What a card has that does not answer is taken back once it does (`keep`). Raises HardwareError or NotReady when something else cannot
        be taken back now; the row then stays.
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
            return await self._on(row.under_mps[0], partial(acts.limited, daemon=daemon))
        except (ApportionError, OSError) as error:
            _log.warning("sharing.limits_unknown", claim=row.uid, daemon=row.daemon, error=str(error))
            return row.daemon not in self._failing

    async def _act(self, row: SharingRow, seconds: float) -> None:
        for each in row.devices:
            if each.time_slice is not TimeSlice.DEFAULT:
                # Turns are taken by programs of several contexts, so the mode has to allow them.
                await self._exclusive(each, exclusive=False)
                await self._on(each, partial(acts.set_time_slice, time_slice=each.time_slice))
                self._context.at("sharing.time_slice")
        if row.daemon:
            await self._start(row, seconds)

    async def _start(self, row: SharingRow, seconds: float) -> None:
        daemon = control_daemon(row, self._folder)
        cards = [each.card_uuid for each in row.under_mps if each.whole]
        await asyncio.to_thread(daemonfolder.make, daemon.folder, cards)
        self._context.at("sharing.folders")
        for each in row.under_mps:
            await self._exclusive(each, exclusive=True)
            self._context.at("sharing.exclusive")
        await self._on(row.under_mps[0], partial(acts.start_daemon, daemon=daemon, seconds=seconds))
        self._context.at("sharing.daemon")

    async def _revive(self, daemon: str) -> str:
        """Start a daemon anew, with the terms of the first of its claims; returns why that fails, "" when it runs."""
        rows = [row for row in self._context.journal.sharing() if row.daemon == daemon and row.done]
        for row in rows[:1]:
            _log.warning("sharing.daemon_gone", claim=row.uid, daemon=daemon)
            try:
                async with self._locked(row):
                    if self._context.journal.sharing_of(row.uid, row.driver) == row:
                        await self._start(row, 10.0)
            except (ApportionError, OSError) as error:
                _log.warning("sharing.not_kept", claim=row.uid, driver=row.driver, error=str(error))
                return str(error)
        return ""

    async def _forget(self, row: SharingRow) -> None:
        async with self._locked(row):
            if self._context.journal.claim(row.uid, row.driver) is None:
                await self._undo(row)

    async def _undo(self, row: SharingRow) -> bool:
        """Take back what no other claim shares; returns whether that was all, or a card did not answer. The caller holds the locks."""
        others = [
            other
            for other in self._context.journal.sharing()
            if (other.uid, other.driver) != (row.uid, row.driver)
        ]
        shared = {each.uuid for other in others for each in other.devices}
        if row.daemon and row.daemon not in {other.daemon for other in others}:
            await self._context.hardware.stop_daemon(row.daemon)
            self._context.at("sharing.daemon_ended")
            await asyncio.to_thread(daemonfolder.remove, self._folder / row.daemon)
        silent = [each for each in row.devices if each.uuid not in shared and not await self._cleared(each)]
        if silent:
            await asyncio.to_thread(self._write, replace(row, done=False))
            return False
        self._notes.drop(row)
        await asyncio.to_thread(self._context.journal.drop_sharing, row.uid, row.driver)
        self._context.at("sharing.gone")
        return True

    async def _end_orphans(self) -> None:
        """End daemons that no claim has, and remove their folders: a journal was lost, or a reboot was between."""
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
            if all([await self._cleared(each) for each in left]):
                await asyncio.to_thread(daemonfolder.remove, self._folder / name)

    async def _exclusive(self, device: SharedDevice, *, exclusive: bool) -> None:
        # A MIG device has no compute mode of its own (dra-driver-nvidia-gpu sets that of whole GPUs only).
        if device.whole:
            await self._on(device, partial(acts.set_exclusive, exclusive=exclusive))

    async def _on(self, device: SharedDevice, act: Callable[[Sharing, str], R]) -> R:
        hardware = self._context.hardware
        card = next((card.name for card in hardware.cards.values() if card.uuid == device.card_uuid), "")
        if not card and hardware.unknown:
            raise Silent(f"{device.device}: its card {device.card_uuid} is not there (yet)")
        if not card:
            raise Lost(f"{device.device}: its card {device.card_uuid} is not there")
        return await hardware.set_up(card, lambda sharing: act(sharing, card))

    async def _cleared(self, device: SharedDevice) -> bool:
        """Give a device the driver's defaults; returns False while nobody knows whether it has them.

        One whose card is lost or has left has them: a driver that sees it anew starts with its defaults.
        """
        try:
            if device.mps:
                await self._exclusive(device, exclusive=False)
            if device.time_slice is not TimeSlice.DEFAULT:
                await self._on(device, partial(acts.set_time_slice, time_slice=TimeSlice.DEFAULT))
        except Lost as error:
            _log.warning("sharing.card_lost", device=device.device, error=str(error))
            return not isinstance(error, Silent)
        self._context.at("sharing.taken_back")
        return True

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
