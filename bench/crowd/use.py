"""How many GPUs a crowd uses, looked at every few seconds.

In: a client. Out: the average number of GPUs that are given out whole or have a partition, in the crowd's namespaces.
"""

import asyncio
from collections.abc import Iterable
from statistics import fmean
from typing import Final

from apportion.cluster.kinds import CLAIMS
from bench.doubled import results
from testbed.api import Api, Json

_EVERY: Final = 5.0
"""Seconds; a list of 3,000 claims costs the API server some 50 ms."""


class Use:
    """Looks at what is allocated until it is cancelled."""

    def __init__(self, api: Api, namespaces: Iterable[str]) -> None:
        self._api = api
        self._namespaces = frozenset(namespaces)
        self._seen: list[int] = []

    @property
    def mean(self) -> float:
        """GPUs in use, on average."""
        return fmean(self._seen) if self._seen else 0.0

    async def run(self) -> None:
        """Look every few seconds, until cancelled. Raises ApiError."""
        while True:
            claims, _ = await self._api.items(CLAIMS.path())
            self._seen.append(
                gpus(claim for claim in claims if claim["metadata"]["namespace"] in self._namespaces)
            )
            await asyncio.sleep(_EVERY)


def gpus(claims: Iterable[Json]) -> int:
    """Return of how many GPUs these claims have the whole or a partition (`gpu-0`, `gpu-0-mig-...`)."""
    return len({(result["pool"], result["device"].partition("-mig-")[0]) for result in results(claims)})
