"""A wake-up event for many waiting tasks.

In: `wake`, from anywhere in the event loop. Out: all tasks that wait go on. It carries no value: they read the state themselves.
"""

import asyncio
from contextlib import suppress


class Wakeup:
    """A broadcast without memory: it wakes the tasks that wait at that moment."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def wake(self) -> None:
        """Wake all waiting tasks."""
        self._next.set()
        self._next = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Wait for the next `wake`, for at most this many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._next.wait()
