"""The steps by which the devices of one claim are set up: time slices, then compute modes and the control daemon.

In: a claim's row. Out: devices set up, and on the way which were begun: of these something may be set, whatever becomes of the rest.
"""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from apportion.agent.devices.sharing import TimeSlice
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.rows import SharedDevice, SharingRow
from apportion.agent.sharing import acts, daemonfolder
from apportion.agent.sharing.cards import SharedCards
from apportion.agent.sharing.daemons import control_daemon
from apportion.errors import Unsupported


class Steps:
    """The steps, on the cards of one node. The caller holds the locks of a row's daemon and cards."""

    def __init__(self, context: AgentContext, folder: Path, cards: SharedCards) -> None:
        """`folder` has those of the daemons."""
        self._context = context
        self._folder = folder
        self._cards = cards

    async def take(self, row: SharingRow, seconds: float, begun: list[SharedDevice]) -> None:
        """Set all up, and add devices to `begun`. Raises HardwareError, and NotReady when something is not ready after `seconds`."""
        for each in row.devices:
            if each.time_slice is not TimeSlice.DEFAULT:
                # Turns are taken by programs of several contexts, so the mode has to allow them.
                await self._cards.set_exclusive(each, exclusive=False)
                with _noted(begun, each):
                    await _answered(self._cards.set_time_slice(each, each.time_slice))
                self._context.at("sharing.time_slice")
        if row.daemon:
            await self.start(row, seconds, begun)

    async def start(self, row: SharingRow, seconds: float, begun: list[SharedDevice]) -> None:
        """Have the row's daemon run. As `take`."""
        daemon = control_daemon(row, self._folder)
        cards = [each.card_uuid for each in row.under_mps if each.whole]
        await asyncio.to_thread(daemonfolder.make, daemon.folder, cards)
        self._context.at("sharing.folders")
        for each in row.under_mps:
            with _noted(begun, each):
                await _answered(self._cards.set_exclusive(each, exclusive=True))
            self._context.at("sharing.exclusive")
        await self._cards.on(row.under_mps[0], partial(acts.start_daemon, daemon=daemon, seconds=seconds))
        self._context.at("sharing.daemon")


async def _answered(act: Coroutine[Any, Any, None]) -> None:
    """Wait for the driver's answer also where the caller gives up meanwhile (kubelet, after 45 s), and raise its refusal then.

    What was refused leaves the claim's row; nobody could take it back.
    """
    work = asyncio.ensure_future(act)
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait({work})
        work.result()
        raise


@contextmanager
def _noted(begun: list[SharedDevice], device: SharedDevice) -> Iterator[None]:
    """Note a device of which something is set in the block; what is refused as unsupported was not set."""
    begun.append(device)
    try:
        yield
    except Unsupported:
        begun.remove(device)
        raise
