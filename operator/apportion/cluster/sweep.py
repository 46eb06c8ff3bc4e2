"""Sweep: know that the picture is complete, and that nothing in it is gone.

In: the snapshot and the names of all objects of the kinds that kopf feeds. Out: `complete`, once every listed UID was
observed; later, phantoms are dropped. kopf neither says when its first list is over nor reports what was deleted
while a watch was interrupted.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog

from apportion.cluster.client import Client
from apportion.cluster.kinds import Kind
from apportion.cluster.snapshot import Snapshot
from apportion.errors import ApiError

_log = structlog.get_logger()


class Sweep:
    """Compares the snapshot with the server, by metadata only."""

    def __init__(
        self,
        client: Client,
        snapshot: Snapshot,
        kinds: Sequence[Kind],
        *,
        every: float = 60.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`every`: seconds between two sweeps once the picture is complete."""
        self._client = client
        self._snapshot = snapshot
        self._kinds = kinds
        self._every = every
        self._sleep = sleep

    async def complete(self) -> None:
        """Return once everything that the server lists now was observed."""
        for kind in self._kinds:
            await self._caught_up(kind)
        _log.info("sweep.complete", kinds=len(self._kinds))

    async def run(self) -> None:
        """Drop phantoms from time to time, until cancelled."""
        while True:
            await self._sleep(self._every)
            for kind in self._kinds:
                try:
                    await self._prune(kind)
                except ApiError as error:
                    _log.warning("sweep.failed", kind=kind.plural, error=str(error))

    async def _caught_up(self, kind: Kind) -> None:
        missing: frozenset[str] | None = None
        while missing is None or missing:
            try:
                missing = await self._listed(kind) - self._snapshot.known(kind)
            except ApiError as error:
                _log.warning("sweep.failed", kind=kind.plural, error=str(error))
            if missing is None or missing:
                await self._sleep(0.1)
        await self._prune(kind)

    async def _prune(self, kind: Kind) -> None:
        # Taken before the list begins: what is observed only later cannot be missing from it by mistake.
        before = self._snapshot.known(kind)
        phantoms = before - await self._listed(kind)
        if phantoms:
            _log.info("sweep.pruned", kind=kind.plural, count=len(phantoms))
            self._snapshot.prune(kind, phantoms)

    async def _listed(self, kind: Kind) -> frozenset[str]:
        answer = await self._client.names(kind)
        return frozenset(item["metadata"]["uid"] for item in answer.get("items") or [])
