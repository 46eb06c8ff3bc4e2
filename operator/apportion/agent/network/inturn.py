"""Several interfaces, one after the other: what is done about one waits for no other whose driver hangs.

In: coroutines, one for each interface. Out: nothing; what is out after some seconds goes on by itself.
"""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, Final

_MOMENT: Final = 0.5
"""Seconds that the next one waits for the one before: the kernel refuses to list interfaces while others change them."""


class InTurn:
    """Those of one node."""

    def __init__(self, patience: float = 5.0) -> None:
        """`patience`: seconds for what is slow, after the last one has begun."""
        self._patience = patience
        self._out: set[asyncio.Task[None]] = set()
        """A loop keeps no task that nobody has."""

    async def run(self, works: Iterable[Coroutine[Any, Any, None]]) -> None:
        """Do all, and return when that is done, or after some seconds. Raises the first error of those that are done."""
        slow: set[asyncio.Task[None]] = set()
        for work in works:
            task = asyncio.ensure_future(work)
            self._out.add(task)
            task.add_done_callback(self._out.discard)
            slow |= (await asyncio.wait({task}, timeout=_MOMENT))[1]
            if task.done():
                task.result()
        if slow:
            done, _ = await asyncio.wait(slow, timeout=self._patience)
            for task in done:
                task.result()
