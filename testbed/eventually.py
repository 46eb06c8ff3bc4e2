"""Waiting for something that others do: a question in, its first yes out."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from testbed.errors import NotReadyInTimeError

T = TypeVar("T")
_LOOK_SECONDS = 0.03


async def eventually(
    ask: Callable[[], Awaitable[T]], accept: Callable[[T], object] = bool, *, within: float = 20.0
) -> T:
    """Ask again and again until the answer is acceptable (true, if nothing else is said), and return it.

    Raises NotReadyInTimeError with the last answer after `within` seconds.
    """
    end = time.monotonic() + within
    while True:
        answer = await ask()
        if accept(answer):
            return answer
        if time.monotonic() > end:
            raise NotReadyInTimeError(f"not within {within:g} s; the last answer was {answer!r}")
        await asyncio.sleep(_LOOK_SECONDS)
