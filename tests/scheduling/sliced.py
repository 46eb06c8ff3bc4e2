"""A cycle that runs, and a test that takes turns with it."""

import asyncio
from collections.abc import Callable, Iterator

from apportion.scheduling.cycle import Cycle

_PATIENCE = 240.0
"""Seconds: many times what any of this takes on a machine that does nothing else."""


async def between(cycle: Cycle, turns: Iterator[None]) -> None:
    """Run the cycle, and take turns with it."""
    acting = asyncio.ensure_future(cycle.run())
    try:
        async with asyncio.timeout(_PATIENCE):
            for _ in turns:
                await asyncio.sleep(0.001)
    finally:
        acting.cancel()
        await asyncio.wait((acting,), timeout=0.01)
        acting.cancel()  # writes that nobody answers are not waited for
        await asyncio.gather(acting, return_exceptions=True)


def until(done: Callable[[], bool], each: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Wait until something is done; does something `each` time."""
    for _ in range(100_000):
        if done():
            return
        each()
        yield
    raise TimeoutError
