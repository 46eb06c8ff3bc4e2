"""An event loop in which time is work: it goes by as functions are called, and leaps to the next timer where nothing is to be done.

In: a coroutine, what a call costs. Out: its result. Waits are those of a machine that does nothing else, the same wherever it runs.
"""

import asyncio
import selectors
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from tests.clock import Clock
from tests.steps import Steps

_Result = TypeVar("_Result")


class _VirtualLoop(asyncio.SelectorEventLoop):
    """Its time is in seconds from 0."""

    def __init__(self, per_call: float, counted: Steps) -> None:
        super().__init__(_Leaping(self))
        self._per_call = per_call
        self.counted = counted
        self.leapt = 0.0
        """Seconds in which nothing was to be done."""

    def time(self) -> float:
        """Return the time."""
        return self.leapt + self.counted.count * self._per_call


class _Leaping(selectors.DefaultSelector):
    def __init__(self, loop: _VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Let the time of the wait be over."""
        if timeout is None:
            raise RuntimeError("nothing will ever happen")
        self._loop.leapt += max(0.0, timeout)
        return super().select(0)


class LoopClock(Clock):
    """The time of the loop that runs."""

    def __call__(self) -> float:
        """Return it in seconds."""
        self.now = asyncio.get_running_loop().time()
        return self.now


@contextmanager
def aside() -> Iterator[None]:
    """Let no time go by for what is done within the block."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, _VirtualLoop)
    before = loop.counted.count
    yield
    loop.counted.count = before


def run(work: Coroutine[Any, Any, _Result], *, per_call: float) -> _Result:
    """Do the work in virtual time; `per_call`: seconds that a call of a function takes."""
    with Steps() as counted, asyncio.Runner(loop_factory=lambda: _VirtualLoop(per_call, counted)) as runner:
        return runner.run(work)
