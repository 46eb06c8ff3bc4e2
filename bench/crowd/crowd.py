"""The crowd: many tenants' namespaces, quotas and pods; those of its pods that are bound end after a while.

In: a control plane, a plan. Out: objects.
"""

import asyncio
import time
from random import Random

from apportion.api.contract import MANAGED
from apportion.cluster.kinds import CLAIM_TEMPLATES, NAMESPACES, NODES, PODS, QUOTAS
from bench.crowd.crowdplan import PLACE, CrowdPlan
from bench.endtoend.creator import Leaving, delete_due
from testbed.api import Api, Json
from testbed.beside import beside
from testbed.reflector import Reflector

_TOGETHER = 16
"""Requests in flight."""


class Crowd:
    """All tenants but the one with the steady pods."""

    def __init__(self, api: Api, plan: CrowdPlan) -> None:
        self._api = api
        self._plan = plan
        self._rng = Random(plan.seed)
        self._leaving: Leaving = asyncio.PriorityQueue()
        self._seen: set[str] = set()
        self.served = 0
        """Pods that were bound."""

    async def prepare(self) -> None:
        """Make the namespaces with templates and quotas, and mark the crowd's nodes. Raises ApiError."""
        slots = asyncio.Semaphore(_TOGETHER)

        async def tenant(number: int, name: str) -> None:
            async with slots:
                metadata = {"name": name, "labels": {MANAGED: "true"}}
                await self._api.create(NAMESPACES.path(), {"metadata": metadata})
                for template in self._plan.templates():
                    await self._api.create(CLAIM_TEMPLATES.path(namespace=name), template)
                if self._plan.quotas:
                    await self._api.create(QUOTAS.path(), self._plan.quota(number, name))

        async def mark(node: str) -> None:
            async with slots:
                await self._api.patch(NODES.path(node), {"metadata": {"labels": {PLACE: "true"}}})

        await asyncio.gather(*(tenant(number, name) for number, name in enumerate(self._plan.names())))
        shapes = [*self._plan.workload.shapes()][: self._plan.crowded]
        await asyncio.gather(*(mark(shape.name) for shape in shapes))

    async def run(self, made: asyncio.Event) -> None:
        """Make all pods, set `made`, and delete those that are bound when their time is over, until cancelled. Raises ApiError."""
        pods = self._plan.pods()

        async def work() -> None:
            for namespace, body in pods:
                await self._api.create(PODS.path(namespace=namespace), body)

        follow = Reflector(self._api, PODS.path(), self._see_pod).run()
        async with beside(follow), beside(delete_due(self._api, self._leaving)):
            async with asyncio.TaskGroup() as group:
                for _ in range(_TOGETHER):
                    group.create_task(work())
            made.set()
            await asyncio.Event().wait()

    def _see_pod(self, uid: str, item: Json | None) -> None:
        if item is None or uid in self._seen or not item["spec"].get("nodeName"):
            return
        metadata = item["metadata"]
        if PLACE in item["spec"].get("nodeSelector", ()):
            self._seen.add(uid)
            self.served += 1
            due = time.monotonic() + self._rng.uniform(0.5, 1.5) * self._plan.stay
            path = PODS.path(metadata["name"], namespace=metadata["namespace"])
            self._leaving.put_nowait((due, path))
