"""The Node object of one simulated node: created, kept Ready, created again when it is deleted."""

import asyncio
import datetime as dt
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

import aiohttp

from testbed.api import Api, Json
from testbed.errors import ApiError

_HEARTBEAT_SECONDS = 10.0
_RETRY_SECONDS = 0.3
_log = logging.getLogger(__name__)


def _resources() -> dict[str, str]:
    return {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "250"}


@dataclass(frozen=True, slots=True)
class NodeShape:
    """Name, labels, resources and taints of a simulated node. `resources` is both capacity and allocatable."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, str] = field(default_factory=_resources)
    taints: tuple[Mapping[str, str], ...] = ()


def now() -> str:
    """Return the time in the API's format."""
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class NodeObject:
    """Keeps one Node object as `shape` says, with the node's own identity."""

    def __init__(self, api: Api, shape: NodeShape, version: str) -> None:
        self._api = api
        self._shape = shape
        self._version = version
        self._path = f"/api/v1/nodes/{shape.name}"
        self.ready = asyncio.Event()

    async def run(self) -> None:
        """Make the Node and refresh its Ready condition until cancelled, through errors of the API."""
        while True:
            try:
                await self.refresh()
            except (ApiError, aiohttp.ClientError, TimeoutError) as error:
                _log.info("node %s: %s", self._shape.name, error)
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                self.ready.set()
                await asyncio.sleep(_HEARTBEAT_SECONDS)

    async def refresh(self) -> None:
        """Make the Node, or write its status again, once. Raises ApiError."""
        try:
            await self._api.patch(f"{self._path}/status", {"status": self._status()}, "strategic")
        except ApiError as error:
            if error.status != 404:
                raise
            await self._api.create("/api/v1/nodes", self._object())
            await self._api.patch(f"{self._path}/status", {"status": self._status()}, "strategic")
            return
        if not self.ready.is_set():
            await self._api.patch(self._path, {"metadata": {"labels": self._labels()}})

    def _labels(self) -> dict[str, str]:
        return {
            "kubernetes.io/hostname": self._shape.name,
            "kubernetes.io/os": "linux",
            **self._shape.labels,
        }

    def _object(self) -> Json:
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self._shape.name, "labels": self._labels()},
            "spec": {"taints": [dict(taint) for taint in self._shape.taints]},
        }

    def _status(self) -> Json:
        return {
            "capacity": dict(self._shape.resources),
            "allocatable": dict(self._shape.resources),
            "nodeInfo": {"kubeletVersion": f"v{self._version}", "operatingSystem": "linux"},
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "KubeletReady",
                    "message": "simulated",
                    "lastHeartbeatTime": now(),
                }
            ],
        }
