"""Polling.

In: a coroutine function, a condition. Out: its first result that meets the condition.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from testbed.errors import NotReadyInTimeError

T = TypeVar("T")
_LOOK_SECONDS = 0.03


async def eventually(
    ask: Callable[[], Awaitable[T]], accept: Callable[[T], object] = bool, *, within: float = 60.0
) -> T:
    """Call `ask` until `accept` holds for its result (by default: it is true), and return the result.

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
