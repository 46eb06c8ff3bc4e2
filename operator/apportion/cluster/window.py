"""Window: turn a burst of changes into one wake-up."""

import asyncio
from collections.abc import Callable


class Window:
    """Opens at the first ring; closes after `quiet` seconds without one, or `longest` seconds after it opened."""

    def __init__(self, *, quiet: float, longest: float, clock: Callable[[], float]) -> None:
        self._quiet = quiet
        self._longest = longest
        self._clock = clock
        self._bell = asyncio.Event()

    def ring(self) -> None:
        """Say that something changed."""
        self._bell.set()

    async def closed(self, *, patience: float) -> bool:
        """Wait for a ring and for the burst to end; False when nothing rang within `patience` seconds."""
        if not await self._rings_within(patience):
            return False
        end = self._clock() + self._longest
        while True:
            self._bell.clear()
            left = min(self._quiet, end - self._clock())
            if left <= 0 or not await self._rings_within(left):
                return True

    async def _rings_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._bell.wait()
        except TimeoutError:
            return False
        return True
