"""Requests that a user or an administrator makes until the API server answers.

In: a call of the API. Out: nothing, once it was carried out. What comes in between (a server that restarts, 429, a role that is being updated)
is waited out; any other refusal is raised.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Final

import aiohttp

from testbed.errors import ApiError

_RETRY_SECONDS: Final = 0.5
_LATER: Final = (403, 409, 429)
"""An API server that has just started does not know roles and classes of priority yet."""


async def insist(call: Callable[[], Awaitable[object]], *, done: Collection[int] = ()) -> None:
    """Ask until the API server answers; statuses in `done` say that a request whose answer got lost was carried out."""
    while True:
        try:
            await call()
        except ApiError as error:
            if error.status in done:
                return
            if error.status < 500 and error.status not in _LATER:
                raise
        except (aiohttp.ClientError, TimeoutError):
            pass
        else:
            return
        await asyncio.sleep(_RETRY_SECONDS)
