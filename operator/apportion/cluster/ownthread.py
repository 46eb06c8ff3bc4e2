"""Run a coroutine in a thread and an event loop of its own, where work in this loop cannot delay it."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any


async def run_in_own_thread(name: str, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run `main` there until it ends, and raise what it raises.

    Cancelling this call cancels `main`, and waits until it has ended. Whatever belongs to an event loop, a client for
    instance, must be made by `main` itself.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = Future()

    async def there() -> None:
        task = asyncio.ensure_future(main())
        begun.set_result((asyncio.get_running_loop(), task))
        with suppress(asyncio.CancelledError):
            await task

    def end(error: BaseException | None) -> None:
        if not ended.done():
            ended.set_result(None) if error is None else ended.set_exception(error)

    def run() -> None:
        error: BaseException | None = None
        try:
            asyncio.run(there())
        except BaseException as raised:  # noqa: BLE001 - raised again in the caller's loop
            error = raised
        with suppress(RuntimeError):  # the caller's loop is closed
            loop.call_soon_threadsafe(end, error)

    threading.Thread(target=run, name=name, daemon=True).start()
    try:
        await asyncio.shield(ended)
    except asyncio.CancelledError:
        other, task = await asyncio.wrap_future(begun)
        with suppress(RuntimeError):  # it has ended meanwhile
            other.call_soon_threadsafe(task.cancel)
        await ended
        raise
