"""Ongoing: what is being done about objects, one thing at a time for each, so that nobody waits for the answer about another object.

In: work by the object's key. Out: tasks. What was to begin for an object about which something is being done already is looked at
anew when that has ended.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import structlog

_log = structlog.get_logger()


class Ongoing:
    """The tasks, by key."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """`wake` is called when something ended for which more was to begin."""
        self._wake = wake
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._more: set[str] = set()

    def begin(self, key: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin, unless something is being done for this key."""
        if key in self._tasks:
            self._more.add(key)
            return
        task = self._tasks[key] = asyncio.create_task(work())
        task.add_done_callback(partial(self._ended, key))

    def __contains__(self, key: object) -> bool:
        """Say whether something is being done for a key."""
        return key in self._tasks

    async def finished(self) -> None:
        """Wait until nothing is being done."""
        while self._tasks:
            await asyncio.wait(self._tasks.values())

    async def end(self) -> None:
        """Break off what is being done."""
        for task in self._tasks.values():
            task.cancel()
        await self.finished()

    def _ended(self, key: str, task: asyncio.Task[None]) -> None:
        del self._tasks[key]
        if key in self._more:
            self._more.discard(key)
            self._wake()
        if not task.cancelled() and task.exception() is not None:
            _log.error(
                "partition_work.failed", key=key, error=str(task.exception()), exc_info=task.exception()
            )
