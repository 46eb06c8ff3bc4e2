"""SnapshotComparer: compare the snapshot with the API server's lists, for the kinds that kopf feeds.

In: the snapshot and the metadata of all objects of these kinds. Out: `complete`, once every listed UID was observed;
later, objects that no longer exist are dropped from the snapshot. kopf neither says when its first list is over nor
reports what was deleted while a watch was interrupted.
"""

import asyncio
from collections.abc import Sequence

import structlog

from apportion.cluster.client import Client
from apportion.cluster.kinds import ResourceKind
from apportion.cluster.snapshot import Snapshot
from apportion.errors import ApiError

_log = structlog.get_logger()
_EVERY = 60.0
"""Seconds between two comparisons."""


class SnapshotComparer:
    """Compares the snapshot with the server, by metadata only."""

    def __init__(self, client: Client, snapshot: Snapshot, kinds: Sequence[ResourceKind]) -> None:
        self._client = client
        self._snapshot = snapshot
        self._kinds = kinds

    async def complete(self) -> None:
        """Return once everything that the server lists now was observed."""
        for kind in self._kinds:
            await self._caught_up(kind)
        _log.info("snapshot.complete", kinds=len(self._kinds))

    async def run(self) -> None:
        """Drop objects that no longer exist from time to time, until cancelled."""
        while True:
            await asyncio.sleep(_EVERY)
            for kind in self._kinds:
                try:
                    await self._prune(kind)
                except ApiError as error:
                    _log.warning("snapshot.list_failed", kind=kind.plural, error=str(error))

    async def _caught_up(self, kind: ResourceKind) -> None:
        while True:
            try:
                if await self._listed(kind) <= self._snapshot.known(kind):
                    break
            except ApiError as error:
                _log.warning("snapshot.list_failed", kind=kind.plural, error=str(error))
            await asyncio.sleep(0.1)
        await self._prune(kind)

    async def _prune(self, kind: ResourceKind) -> None:
        # Taken before the list begins: an object that is observed later cannot be missing from the list by mistake.
        before = self._snapshot.known(kind)
        vanished = before - await self._listed(kind)
        if vanished:
            _log.info("snapshot.pruned", kind=kind.plural, count=len(vanished))
            self._snapshot.prune(kind, vanished)

    async def _listed(self, kind: ResourceKind) -> frozenset[str]:
        answer = await self._client.names(kind)
        return frozenset(item["metadata"]["uid"] for item in answer.get("items") or [])
