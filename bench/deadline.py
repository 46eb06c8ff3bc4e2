"""A time limit for one call: seconds in, Expired raised after them.

The allocator has a budget of steps and no clock; a comparison with the peer needs the clock.
"""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from apportion.errors import BrokenInput

UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|ms|s|m|h)")


class Expired(Exception):  # noqa: N818 - says what happened
    """The time limit passed."""


def seconds(text: str) -> float:
    """Read a duration as Go writes it: 10s, 1m30s, 500ms, or 0; raises BrokenInput."""
    if text == "0":
        return 0.0
    parts = list(_PART.finditer(text))
    if not parts or "".join(part.group() for part in parts) != text:
        raise BrokenInput(f"{text!r} is not a duration such as 10s or 500ms", field="--timeout")
    return sum(float(part.group(1)) * UNITS[part.group(2)] for part in parts)


@contextmanager
def deadline(limit: float) -> Iterator[None]:
    """Raise Expired inside the block after so many seconds; 0: never."""
    if not limit:
        yield
        return

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise Expired

    former = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
