"""What is done beside everything else, and what is done later. In: coroutines. Out: tasks, which end at `close` at the latest."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any


class Aside:
    """`start` begins something, `later` does it after some seconds. An error is raised by `close`."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it now, beside everything else."""
        self._tasks.add(asyncio.create_task(work))

    def later(self, seconds: float, act: Callable[[], Awaitable[None]]) -> None:
        """Do it after so many seconds."""

        async def wait() -> None:
            await asyncio.sleep(seconds)
            await act()

        self.start(wait())

    async def close(self) -> None:
        """Wait for what was begun; raises an ExceptionGroup of what failed."""
        found = await asyncio.gather(*self._tasks, return_exceptions=True)
        failed = [each for each in found if isinstance(each, Exception)]
        if failed:
            raise ExceptionGroup("what was done aside failed", failed)
