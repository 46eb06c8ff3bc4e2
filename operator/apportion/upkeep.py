"""upkeep(): work that a later claim, or a new leader, would have to wait for, while no claim waits.

In: the allocator's state, how long ago the last pass began. Out: node states that are up to date, memory of reference cycles freed.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

import structlog

from apportion.allocator.state import State
from apportion.collector import Collector

_log = structlog.get_logger()
_REST = 1.0
"""Seconds without a pass after which upkeep may run."""


async def upkeep(state: State, age: Callable[[], float], *, loaded: Awaitable[object]) -> None:
    """Keep the state up to date until cancelled, from the moment on when everything is loaded.

    `age` returns the seconds since the last pass began; a stand-by makes none.
    """
    collector = Collector()
    collector.load()
    try:
        await loaded
        state.warm_up()
        collector.take_over(time.monotonic())
        while True:
            await asyncio.sleep(_REST)
            if age() >= _REST:
                state.settle()
                collector.quiet(time.monotonic())
            else:
                collector.busy(time.monotonic())
    except Exception:  # noqa: BLE001 - claims are served without it, only later; Python collects by itself then
        _log.exception("upkeep.defect")
    finally:
        collector.end()
