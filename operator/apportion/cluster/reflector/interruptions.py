"""Interruptions: how long a kind is left alone after the server did not answer, and what is said about it.

In: failures, and that they are over. Out: pauses, log lines.
"""

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import structlog

from apportion.errors import ApiError, Expired, Unreachable

THROTTLED: Final = 429
_LOGGED = 60.0
"""Seconds between two log lines about failures."""
_FIRST_PAUSE, _LAST_PAUSE = 0.1, 5.0
"""Seconds; the pause doubles with each failure in a row."""
_FIRST_LIST, _LAST_LIST = 1.0, 30.0
"""Seconds between two lists where each watch from a list's version is refused as too old (410): all objects are sent each time."""
_LONGEST_PAUSE = 30.0
"""Seconds for which a server's Retry-After is honoured at most: its kind is not observed meanwhile."""
_log = structlog.get_logger()


class Interruptions:
    """Failures of one kind."""

    def __init__(self, kind: str, jitter: Callable[[], float] = random.random) -> None:
        """`kind`: its plural, for the log; `jitter`: a number from 0 to 1, so that kinds do not list at once."""
        self._kind = kind
        self._in_a_row = 0
        self._expired = 0
        """Versions in a row that were too old, with nothing observed in between but lists."""
        self._jitter = jitter
        self._logged = float("-inf")
        self._wanted = asyncio.Event()

    def note(self, error: Unreachable) -> float:
        """Count a failure; returns the pause in seconds."""
        self._in_a_row += 1
        pause = min(_FIRST_PAUSE * 2.0 ** min(self._in_a_row, 10), _LAST_PAUSE)
        pause = max(pause, min(error.retry_after, _LONGEST_PAUSE))
        if self._in_a_row == 1:
            _log.info("reflector.interrupted", kind=self._kind, error=str(error), retry_in=pause)
        else:
            self.say("reflector.unreachable", error, pause)
        return pause

    def expire(self, error: Expired) -> float:
        """Count a version that was too old; returns the pause in seconds, none for one after which the kind was watched."""
        self._expired += 1
        if self._expired == 1:
            return 0.0
        longest = min(_FIRST_LIST * 2.0 ** min(self._expired - 2, 10), _LAST_LIST)
        pause = longest * (1 + self._jitter()) / 2
        self.say("reflector.expired", error, pause)
        return pause

    def watched(self) -> None:
        """Note that a watch has said something."""
        self._expired = 0

    async def rest(self, seconds: float) -> None:
        """Leave the kind alone for so long, or until `end_rest`."""
        self._wanted.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wanted.wait()

    def end_rest(self) -> None:
        """End the pause: the kind is wanted at once, and the server has answered about it."""
        self._wanted.set()

    def over(self) -> None:
        """Note that the server has answered."""
        self._in_a_row = 0

    def say(self, event: str, error: ApiError, pause: float) -> None:
        """Log a failure that goes on, once a minute."""
        if time.monotonic() - self._logged >= _LOGGED:
            self._logged = time.monotonic()
            _log.warning(event, kind=self._kind, error=str(error), retry_in=pause)
