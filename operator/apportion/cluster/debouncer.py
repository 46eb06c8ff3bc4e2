"""Debouncer: turn a burst of changes into one wake-up."""

import asyncio
from collections.abc import Callable

LATER = 0.1
"""Seconds after which a change that does not press begins a burst, if none has begun."""


class Debouncer:
    """A burst begins with `wake`; it ends after `quiet` seconds without another, or `longest` seconds after it began."""

    def __init__(self, *, quiet: float, longest: float, clock: Callable[[], float]) -> None:
        self._quiet = quiet
        self._longest = longest
        self._clock = clock
        self._changed = asyncio.Event()
        self._later: asyncio.TimerHandle | None = None

    def wake(self) -> None:
        """Say that something changed."""
        self._changed.set()

    def wake_later(self) -> None:
        """Say that something changed that does not press: the next burst has it, which begins within `LATER`."""
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(LATER, self.wake)

    @property
    def awake(self) -> bool:
        """Whether something changed that presses since the last burst ended."""
        return self._changed.is_set()

    async def burst(self, *, within: float) -> None:
        """Wait until a burst has ended, or for `within` seconds when none begins."""
        if await self._woken(within):
            end = self._clock() + self._longest
            while True:
                self._changed.clear()
                left = min(self._quiet, end - self._clock())
                if left <= 0 or not await self._woken(left):
                    break
        if self._later is not None:
            self._later.cancel()
            self._later = None

    async def _woken(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True
