"""A list and watch of one path that survives lost watches, expired versions and errors.

In: a path. Out: a call for every object that is added, changed or deleted.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import aiohttp

from testbed.api import Api, Json
from testbed.errors import ApiError

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 3.0
_log = logging.getLogger(__name__)

Changed = Callable[[str, Json | None], None]


class Reflector:
    """Calls `changed(uid, object)` for every object now and later, and `changed(uid, None)` when one is gone.

    Objects that were deleted while no watch was open are reported too. What a list reports has happened at one moment, not in the
    order in which it is reported: it is reported within `together()`.
    """

    def __init__(
        self,
        api: Api,
        path: str,
        changed: Changed,
        *,
        together: Callable[[], AbstractContextManager[None]] = nullcontext,
        **parameters: str,
    ) -> None:
        self._api = api
        self._path = path
        self._changed = changed
        self._together = together
        self._parameters = parameters
        self._known: set[str] = set()
        self.listed = asyncio.Event()

    async def run(self) -> None:
        """Follow the list until cancelled."""
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                version = await self._list()
                pause = _FIRST_PAUSE_SECONDS
                while True:
                    version = await self._watch(version)
            except (ApiError, aiohttp.ClientError, TimeoutError) as error:
                if isinstance(error, ApiError) and error.status == 410:
                    continue
                _log.info("%s: %s; listing again in %.1f s", self._path, error, pause)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _list(self) -> str:
        objects, version = await self._api.items(self._path, **self._parameters)
        found = {item["metadata"]["uid"]: item for item in objects}
        with self._together():
            for uid in self._known - found.keys():
                self._changed(uid, None)
            self._known = set(found)
            for uid, item in found.items():
                self._changed(uid, item)
        self.listed.set()
        return version

    async def _watch(self, version: str) -> str:
        async for kind, item in self._api.watch(self._path, version, **self._parameters):
            metadata = item["metadata"]
            version = metadata["resourceVersion"]
            if kind == "BOOKMARK":
                continue
            uid = metadata["uid"]
            if kind == "DELETED":
                self._known.discard(uid)
                self._changed(uid, None)
            else:
                self._known.add(uid)
                self._changed(uid, item)
        return version


class Reflectors:
    """Several lists that are followed together."""

    def __init__(self, *reflectors: Reflector) -> None:
        self._reflectors = reflectors

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            for each in self._reflectors:
                group.create_task(each.run())

    async def listening(self) -> None:
        """Wait until all were listed: from then on no change is missed."""
        for each in self._reflectors:
            await each.listed.wait()
