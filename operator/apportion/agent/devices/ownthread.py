"""One call in a thread of its own.

In: a function that may block, or never return. Out: a future. The thread is a daemon: a driver call that hangs keeps neither
others from being made, as it would in a pool, nor the process from ending.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar, TypeVarTuple

Arguments = TypeVarTuple("Arguments")
R = TypeVar("R")


def in_own_thread(function: Callable[[*Arguments], R], *args: *Arguments) -> "asyncio.Future[R]":
    """Start a call and return the future of its answer, which nobody has to await."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[R] = loop.create_future()
    # An error that comes when nobody waits any more is none of the loop's.
    answer.add_done_callback(lambda done: done.cancelled() or done.exception())

    def settle(finish: Callable[[], None]) -> None:
        if not answer.cancelled():
            finish()

    def run() -> None:
        finish: Callable[[], None]
        try:
            finish = partial(answer.set_result, function(*args))
        except BaseException as error:  # noqa: BLE001 - it goes to who awaits
            finish = partial(answer.set_exception, error)
        # The loop may be closed by then: nobody is interested.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, finish)

    threading.Thread(target=run, name=f"hardware {function.__name__}", daemon=True).start()
    return answer
