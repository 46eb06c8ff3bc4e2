"""Reads the health stream until it says what a test waits for."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

MIG = "gpu-0-mig-1g10gb-19-3"
"""A device that an H100 can be cut into."""
Lists = AsyncIterator[dict[str, Any]]


async def heard(lists: Lists, wanted: Callable[[dict[str, Any]], bool], within: float = 60) -> dict[str, Any]:
    """Return the first list that is as wanted."""
    async with asyncio.timeout(within):
        async for found in lists:
            if wanted(found):
                return found
    raise AssertionError("the stream ended")
