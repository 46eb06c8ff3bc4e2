"""A bell that many may wait for: something changed, look again.

In: `ring`, from anywhere in the loop. Out: everybody who waits wakes up. It carries no news, because whoever wakes looks
at the real state.
"""

import asyncio


class Wakeup:
    """A broadcast without memory: a ring wakes those who wait at that moment."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def wake(self) -> None:
        """Wake everybody."""
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)
        self._waiting.clear()

    async def wait(self, seconds: float) -> None:
        """Sleep until the next ring, for at most this many seconds."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            async with asyncio.timeout(seconds):
                await waiter
        except TimeoutError:
            pass
        finally:
            self._waiting.discard(waiter)
