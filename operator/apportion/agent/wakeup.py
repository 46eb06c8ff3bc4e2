"""A wake-up event for many waiting tasks.

In: `wake`, from anywhere in the event loop. Out: all tasks that wait go on. It carries no value: they read the state themselves.
"""

import asyncio
from contextlib import suppress


class Wakeup:
    """A broadcast: it wakes the tasks that wait, and those that asked for the `next` one before they read the state."""

    def __init__(self) -> None:
        self.next = asyncio.Event()
        """What the next `wake` sets: who takes it before he reads the state misses no change meanwhile."""

    def wake(self) -> None:
        """Wake all waiting tasks."""
        self.next.set()
        self.next = asyncio.Event()


async def woken(event: asyncio.Event, seconds: float) -> None:
    """Wait for the `wake` that sets this event, for at most this many seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
