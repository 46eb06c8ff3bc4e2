"""Calls that may block, each in a thread of its own.

In: a function that may block, or never return. Out: a future. The threads are daemons: a driver call that hangs keeps neither
others from being made, as it would in a pool of bounded size, nor the process from ending. A thread whose call has ended takes
the next one, because to start a thread holds up the event loop until the new one runs.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Generic, TypeVar, TypeVarTuple

Arguments = TypeVarTuple("Arguments")
R = TypeVar("R")
_Job = Callable[[], Callable[[], object]]
"""Makes the call, and returns what tells the answer."""


class Threads:
    """As many threads as calls are out at once."""

    def __init__(self) -> None:
        """None is started before it is needed."""
        self._idle: list[SimpleQueue[_Job]] = []
        """Where each thread that has nothing to do waits."""

    def call(self, function: Callable[[*Arguments], R], *args: *Arguments) -> "asyncio.Future[R]":
        """Start a call and return the future of its answer, which nobody has to await."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[R] = loop.create_future()
        # An error that comes when nobody waits any more is none of the loop's.
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())

        def settle(finish: Callable[[], None]) -> None:
            if not answer.cancelled():
                finish()

        def job() -> Callable[[], object]:
            finish: Callable[[], None]
            try:
                finish = partial(answer.set_result, function(*args))
            except BaseException as error:  # noqa: BLE001 - it goes to who awaits
                finish = partial(answer.set_exception, error)
            return partial(loop.call_soon_threadsafe, settle, finish)

        try:
            self._idle.pop().put(job)
        except IndexError:
            threading.Thread(target=self._work, args=(job,), name="hardware", daemon=True).start()
        return answer

    def _work(self, job: _Job) -> None:
        inbox: SimpleQueue[_Job] = SimpleQueue()
        while True:
            tell = job()
            self._idle.append(inbox)
            # The loop may be closed by then: nobody is interested.
            with suppress(RuntimeError):
                tell()
            del tell
            job = inbox.get()


class OneCall(Generic[R]):
    """A call of which at most one is out: one that takes long is waited for, and not made once more."""

    def __init__(self) -> None:
        """None is out."""
        self._out: asyncio.Future[R] | None = None

    async def answered(
        self, make: "Callable[[], asyncio.Future[R]]", seconds: float
    ) -> "asyncio.Future[R] | None":
        """Return the call that is out, or that `make` begins, once it is back; None where it is not within these seconds."""
        out = self._out or make()
        await asyncio.wait({out}, timeout=seconds)
        self._out = None if out.done() else out
        return out if out.done() else None


def in_own_thread(function: Callable[[*Arguments], R], *args: *Arguments) -> "asyncio.Future[R]":
    """Start a call in a thread that takes no other."""
    return Threads().call(function, *args)
