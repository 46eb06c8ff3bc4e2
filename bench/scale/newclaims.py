"""Claims that come while the operator runs, each with a gated pod, in a namespace that is watched.

In: a client. Out: objects, and when each claim was seen with an allocation.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import count

from apportion.cluster.kinds import CLAIMS, PODS
from bench.scale.objects import pod, request
from testbed.api import Api, Json
from testbed.reflector import Reflector

_TOGETHER = 32


class NewClaims:
    """Makes claims and follows them."""

    def __init__(self, api: Api, namespace: str, clock: Callable[[], float]) -> None:
        self._api = api
        self._claims = CLAIMS.path(namespace=namespace)
        self._pods = PODS.path(namespace=namespace)
        self._clock = clock
        self._numbers = count()
        self._allocated: dict[str, asyncio.Future[float]] = {}
        self.reflector = Reflector(api, self._claims, self._observe)

    async def make(self, number: int, devices: int = 1) -> Sequence[str]:
        """Make claims for so many GPUs each, and their pods; returns the names. Raises ApiError."""
        names = [f"new-{next(self._numbers):06d}" for _ in range(number)]
        # All claims are there before the first pod: a claim without a pod waits for nobody.
        await self._each(names, self._claims, lambda name: _claim(name, devices))
        await self._each(names, self._pods, lambda name: pod(name, name))
        return names

    async def allocated(self, names: Sequence[str], within: float) -> float:
        """Wait until all have devices; returns when the last one was seen with them. Raises TimeoutError."""
        async with asyncio.timeout(within):
            return max([await self._future(name) for name in names])

    async def _each(self, names: Sequence[str], path: str, body: Callable[[str], Json]) -> None:
        slots = asyncio.Semaphore(_TOGETHER)

        async def one(name: str) -> None:
            async with slots:
                await self._api.create(path, body(name))

        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(one(name))

    def _future(self, name: str) -> "asyncio.Future[float]":
        return self._allocated.setdefault(name, asyncio.get_running_loop().create_future())

    def _observe(self, _uid: str, item: Json | None) -> None:
        if item is not None and "allocation" in item.get("status", {}):
            future = self._future(item["metadata"]["name"])
            if not future.done():
                future.set_result(self._clock())


def _claim(name: str, devices: int) -> Json:
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": [request(devices)]}}}
