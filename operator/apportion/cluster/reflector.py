"""Reflector: observe all objects of one kind by list and watch.

In: a client, a kind, optional selectors. Out: calls of `observe` for every change, including those that happened
while no watch was open: after every list, what vanished is reported as deleted. Bulk kinds (slices, nodes, pods)
are observed this way: kopf copies every object on every event and never reports what changed while no watch was open.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import structlog

from apportion.cluster.client import Client, Object
from apportion.cluster.kinds import ResourceKind
from apportion.errors import ApiError, Expired, Missing, Unreachable

Observe = Callable[[ResourceKind, str, Object], None]
"""Takes the kind, the event's type (ADDED, MODIFIED, DELETED) and the object."""

_PAGE = "500"
_FORBIDDEN = 403
_log = structlog.get_logger()


class Reflector:
    """One kind, kept up to date by one task."""

    def __init__(
        self,
        client: Client,
        kind: ResourceKind,
        observe: Observe,
        *,
        optional: bool = False,
        **params: str,
    ) -> None:
        """Prepare; nothing is read before `run`.

        `optional`: a kind that this server does not serve, or does not let us read, counts as empty; `params`: server-side selectors.
        """
        self._client = client
        self._kind = kind
        self._observe = observe
        self._optional = optional
        self._params = params
        self._known: dict[str, Object] = {}
        self._version = ""
        """Where the next watch starts; empty: list first."""
        self.listed = False
        """Whether the kind was listed at least once."""
        self.synced = asyncio.Event()
        """Set once the first list was observed whole."""

    async def run(self) -> None:
        """List and watch until cancelled; every failure is waited out."""
        log = _log.bind(kind=self._kind.plural)
        pause = 0.0
        while True:
            try:
                if not self._version:
                    self._version = await self._relist()
                    self.listed = True
                    self.synced.set()
                await self._follow()
                pause = 0.0
            except Expired:
                self._version = ""
            except Missing:
                if not self._optional:
                    raise
                log.info("reflector.not_served")
                self.synced.set()
                return
            except Unreachable as error:
                pause = min(pause * 2 or 0.2, 5.0)
                log.warning("reflector.unreachable", error=str(error), retry_in=pause)
            except ApiError as error:
                if self._optional and error.status == _FORBIDDEN:
                    log.warning("reflector.not_permitted", error=str(error))
                    self.synced.set()
                    return
                # A refusal (403) may be a role that is being updated; saying it again every few seconds is enough.
                pause, self._version = 5.0, ""
                log.error("reflector.refused", error=str(error), retry_in=pause)  # noqa: TRY400 - the text says all
            if pause:
                await asyncio.sleep(pause)

    async def _relist(self) -> str:
        found: dict[str, Object] = {}
        token, version = "", ""
        while True:
            more = {"continue": token} if token else {}
            page = await self._client.list(self._kind, limit=_PAGE, **self._params, **more)
            found.update({item["metadata"]["uid"]: item for item in page.get("items") or []})
            metadata: dict[str, Any] = page["metadata"]
            version = str(metadata["resourceVersion"])
            token = metadata.get("continue") or ""
            if not token:
                break
        for uid in [uid for uid in self._known if uid not in found]:
            self._report("DELETED", self._known[uid])
        for item in found.values():
            self._report("ADDED", item)
        return version

    async def _follow(self) -> None:
        async for event in self._client.watch(self._kind, self._version, self._params):
            item = event["object"]
            if event["type"] != "BOOKMARK":
                self._report(event["type"], item)
            # Only now: an event that was not observed must come again after a broken connection.
            self._version = item["metadata"]["resourceVersion"]

    def _report(self, change: str, item: Object) -> None:
        uid = item["metadata"]["uid"]
        if change == "DELETED":
            self._known.pop(uid, None)
        else:
            # Only what a later DELETED needs.
            metadata = item["metadata"]
            self._known[uid] = {
                "metadata": {key: metadata[key] for key in ("name", "namespace", "uid") if key in metadata}
            }
        self._observe(self._kind, change, item)
