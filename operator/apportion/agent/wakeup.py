"""A wake-up event for many waiting tasks.

In: `wake`, from anywhere in the event loop. Out: all tasks that wait go on. It carries no value: they read the state themselves.
"""

import asyncio


class Wakeup:
    """A broadcast without memory: it wakes the tasks that wait at that moment."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def wake(self) -> None:
        """Wake all waiting tasks."""
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)
        self._waiting.clear()

    async def wait(self, seconds: float) -> None:
        """Wait for the next `wake`, for at most this many seconds."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            async with asyncio.timeout(seconds):
                await waiter
        except TimeoutError:
            pass
        finally:
            self._waiting.discard(waiter)
