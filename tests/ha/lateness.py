"""For how long a machine keeps everybody waiting: a bound in seconds that counts this says something of the product on a busy machine, too.

In: a short read of the API server. Out: seconds beyond those that its answers take where nothing else runs.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

_LOOK_SECONDS = 0.05
"""Between two reads."""
_USUAL_SECONDS = 0.025
"""That a read and the pause before it may take longer."""


class Lateness:
    """Seconds that were lost since `count` began."""

    def __init__(self, read: Callable[[], Awaitable[object]]) -> None:
        self._read = read
        self.seconds = 0.0

    async def count(self) -> None:
        """Read again and again until cancelled."""
        while True:
            began = time.monotonic()
            await asyncio.sleep(_LOOK_SECONDS)
            await self._read()
            self.seconds += max(0.0, time.monotonic() - began - _LOOK_SECONDS - _USUAL_SECONDS)
