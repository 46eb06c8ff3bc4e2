"""The lock of one card: one worker or prepare call at a time, also across the two agents of a rolling update.

In: a file per card. Out: an async context manager. The lock is advisory (flock) and dies with its process, so that a
killed agent never leaves one behind.
"""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

_LOOK = 0.02
"""Seconds between two tries while another process has it; waiting in a thread would hold up others' threads."""


class CardLock:
    """Exclusive use of one card's partitions."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._own = asyncio.Lock()

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Hold the lock for the block."""
        async with self._own:
            handle = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                # The other holder is another process, so there is no event to wait for.
                while not _taken(handle):  # noqa: ASYNC110
                    await asyncio.sleep(_LOOK)
                yield
            finally:
                os.close(handle)


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
