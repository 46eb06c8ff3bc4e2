"""A player of the API server: it carries out the operator's writes one after the other, and shows them a moment later.

In: the operator's requests about claims and pods of an observed cluster. Out: answers, and the changes as the watch shows them. Its own work
takes no time of the operator's.
"""

import asyncio
from copy import deepcopy
from typing import Any

from apportion.cluster.client import MERGE
from apportion.cluster.kinds import CLAIMS, PODS, ResourceKind
from apportion.errors import Overtaken
from tests.observedcluster import Json, ObservedCluster
from tests.scheduling.virtualtime import aside

_WATCH = 0.001
"""Seconds until the watch shows a change."""


class Answering:
    """Stands in the place of the operator's client."""

    def __init__(self, world: ObservedCluster, service: float) -> None:
        """`service`: seconds that a write takes, in which no other one is carried out."""
        self._world = world
        self._service = service
        self._free_at = 0.0
        self._objects: dict[tuple[ResourceKind, str, str], Json] = {}
        self.allocated: dict[str, float] = {}
        """When a claim got its devices, by name and by the loop's time."""
        self.let_go: dict[str, float] = {}
        """When a pod lost its gate."""

    async def get(self, kind: ResourceKind, name: str, *, namespace: str = "", **_params: str) -> Json:
        """Read an object."""
        return _copied(self._object(kind, namespace, name))

    async def create(self, _kind: ResourceKind, body: Json, **_params: str) -> Json:
        """Take an Event."""
        await self._turn()
        return body

    async def patch(
        self, kind: ResourceKind, name: str, body: Any, *, namespace: str = "", how: str = MERGE, **_sub: str
    ) -> Json:
        """Change an object. Raises Overtaken where it has another version."""
        await self._turn()
        raw = self._object(kind, namespace, name)
        if how == MERGE:
            expected = body["metadata"]["resourceVersion"]
            if expected != raw["metadata"]["resourceVersion"]:
                raise Overtaken(f"{name} has changed")
            raw["metadata"] |= body["metadata"]
            raw["status"] = raw.get("status", {}) | body.get("status", {})
        elif any(each["op"] == "remove" for each in body):
            raw["spec"]["schedulingGates"] = []
        self._world.version += 1
        raw["metadata"]["resourceVersion"] = str(self._world.version)
        loop = asyncio.get_running_loop()
        if kind == CLAIMS and "allocation" in raw["status"]:
            raw["metadata"]["managedFields"] = [
                {"manager": "apportion-operator", "fieldsV1": {"f:status": {"f:allocation": {}}}}
            ]
            self.allocated.setdefault(name, loop.time())
        elif kind == PODS and not raw["spec"].get("schedulingGates"):
            self.let_go.setdefault(name, loop.time())
        shown = _copied(raw)
        loop.call_later(_WATCH, lambda: self._world.snapshot.observe(kind, "MODIFIED", shown))
        return raw

    def _object(self, kind: ResourceKind, namespace: str, name: str) -> Json:
        """Return an object as it is, which the watch may not have shown yet."""
        key = kind, namespace, name
        if key not in self._objects:
            self._objects[key] = _copied(self._world.seen[key])
        return self._objects[key]

    async def _turn(self) -> None:
        """Wait until a write is carried out, behind those that were asked for before."""
        loop = asyncio.get_running_loop()
        self._free_at = max(self._free_at, loop.time()) + self._service
        await asyncio.sleep(self._free_at - loop.time())


def _copied(raw: Json) -> Json:
    with aside():
        return deepcopy(raw)
