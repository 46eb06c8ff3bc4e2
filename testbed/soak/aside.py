"""What is done beside everything else, and what is done later. In: coroutines. Out: tasks, which end at `close` at the latest."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Aside:
    """`start` begins something, `later` does it after some seconds. An error is raised by `close`."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it now, beside everything else."""
        self._tasks.add(asyncio.create_task(work))

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it and return what it returns; it is done to its end even if the one that waits for it is cancelled."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        return await asyncio.shield(task)

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
