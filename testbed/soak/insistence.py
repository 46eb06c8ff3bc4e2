"""Requests that a user or an administrator makes until the API server answers.

In: a call of the API. Out: nothing, once it was carried out. What comes in between (a server that restarts, 429, a role that is being updated)
is waited out; any other refusal is raised.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Any, Final

import aiohttp

from testbed.api import Api, Json
from testbed.errors import ApiError

_RETRY_SECONDS: Final = 0.5
_LATER: Final = (403, 409, 429)
"""An API server that has just started does not know roles and classes of priority yet."""

_MADE: Final = 409
"""An object that is there already was made by a request whose answer got lost."""
_MANAGER: Final = "soak"


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


async def make(api: Api, collection: str, body: Json) -> None:
    """Make an object; one that is there already is left as it is."""
    await insist(partial(api.create, collection, body), done=(_MADE,))


async def remove(api: Api, path: str) -> None:
    """Delete an object, if it is there."""
    await insist(partial(api.delete, path))


async def apply(api: Api, collection: str, kind: str, name: str, spec: Any) -> None:
    """Create one of the product's objects, or change what its spec says."""
    body = {"apiVersion": "apportion.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    await insist(
        partial(api.patch, f"{collection}/{name}", body, "apply", fieldManager=_MANAGER, force="true")
    )
