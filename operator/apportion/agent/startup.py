"""How an agent starts and ends, which it does as if it were told to where one of its parts wants a new start.

Its start ends when it is told to end, whatever it waits for: a driver, the API server, a lock.
In: the event that tells it, the agent's run, its parts. Out: its end, or the one error that it ended in.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import structlog

from apportion.errors import ApportionError, NotReady

_log = structlog.get_logger()


async def run_until_stopped(
    stop: asyncio.Event, begin: Callable[[Callable[[], None]], Coroutine[Any, Any, None]]
) -> None:
    """Run `begin(begun)`. It is cancelled when `stop` is set before it has called `begun()`, and ends by itself when `stop` is set after.

    Raises its error; the first ApportionError where one part failed for good and the task group stopped the others.
    """
    begun = asyncio.Event()
    running = asyncio.ensure_future(begin(begun.set))
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done() and not begun.is_set():
            _log.info("agent.stopping", begun=False)
            return
        await running
    except ExceptionGroup as group:
        known, unknown = group.split(ApportionError)
        if unknown is not None or known is None:
            raise
        error: BaseException = known
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None
    finally:
        stopping.cancel()
        running.cancel()
        await asyncio.wait({running})


@dataclass(slots=True)
class Restart:
    """What has the agent start anew; what it has begun for kubelet is finished first."""

    stop: asyncio.Event
    why: NotReady | None = None

    async def by(self, part: Coroutine[Any, Any, None]) -> None:
        """Run a part of the agent; its NotReady ends the agent."""
        try:
            await part
        except NotReady as error:
            self.why = error
            self.stop.set()
