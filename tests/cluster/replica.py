"""One replica of the operator inside the test's process, and a small cluster for it to serve."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from kopf._cogs.aiokits import aiotasks

from apportion.app import App
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, CLASSES, LEASES, NODES, SLICES
from apportion.cluster.ownthread import run_in_own_thread
from apportion.settings import CycleSettings, LeaseSettings, OperatorSettings
from testbed.beside import beside
from tests.cluster.apiserver import ApiServer, Json
from tests.observedcluster import ObservedCluster

NAMESPACE = "apportion-system"
LEASE = "apportion-operator"


@asynccontextmanager
async def replica(
    server: ApiServer, lease: LeaseSettings | None = None, cycle: CycleSettings | None = None
) -> AsyncIterator[App]:
    """Run the operator on the server, without its health port."""
    settings = OperatorSettings(
        identity="replica", health_port=0, lease=lease or LeaseSettings(), cycle=cycle or CycleSettings()
    )
    async with server.client() as client:

        async def connect() -> Client:
            return server.client()

        app = App(settings, client, (1, 37), asyncio.Event(), connect=connect)
        with _server_unseen_by_kopf():
            running = asyncio.ensure_future(app.run())
            try:
                yield app
            finally:
                app.stopping()
                with suppress(asyncio.CancelledError):
                    async with asyncio.timeout(20):
                        await running


@contextmanager
def _server_unseen_by_kopf() -> Iterator[None]:
    """Leave out the connections of a server in the same loop of what kopf waits for as it ends, five seconds: elsewhere they are in other processes."""
    every = aiotasks.all_tasks

    async def others(
        *, ignored: Collection[asyncio.Task[Any]] = frozenset()
    ) -> Collection[asyncio.Task[Any]]:
        found = await every(ignored=ignored)
        return {task for task in found if "RequestHandler." not in task.get_coro().__qualname__}  # type: ignore[union-attr] # all of them are coroutines

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aiotasks, "all_tasks", others)
        yield


@asynccontextmanager
async def elsewhere(server: ApiServer) -> AsyncIterator[ApiServer]:
    """Serve in another thread, so that this loop can be blocked."""
    listening = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def serve() -> None:
        async with server.serving():
            loop.call_soon_threadsafe(listening.set)
            await asyncio.Event().wait()

    async with beside(run_in_own_thread("server", serve)):
        await listening.wait()
        yield server


def two_devices(server: ApiServer) -> None:
    """Put a node with the plain devices `gpu-0` and `gpu-1`, and the managed class `gpu`."""
    made = ObservedCluster()
    server.put(NODES, made.node("n1"))
    server.put(CLASSES, made.device_class("gpu"))
    server.put(SLICES, made.slice("n1", "s", {"devices": [{"name": "gpu-0"}, {"name": "gpu-1"}]}, 1))


def claim(server: ApiServer, name: str) -> Json:
    """Put a claim for one device that needs no pod, made now: nothing is reserved for it yet."""
    made = ObservedCluster().claim(name, annotations={"apportion.dev/allocation": "Immediate"})
    made["metadata"]["creationTimestamp"] = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return server.put(CLAIMS, made)


def devices(server: ApiServer) -> dict[str, str]:
    """Return the allocated device of each claim that has one."""
    return {
        raw["metadata"]["name"]: raw["status"]["allocation"]["devices"]["results"][0]["device"]
        for raw in server.all(CLAIMS)
        if (raw.get("status") or {}).get("allocation")
    }


def hold(server: ApiServer, holder: str, seconds: int = 600) -> None:
    """Let somebody hold the lease; nobody, who has released it, if `holder` is empty."""
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": seconds if holder else 1,
        "leaseTransitions": 1,
    }
    server.put(LEASES, {"metadata": {"name": LEASE, "namespace": NAMESPACE}, "spec": spec})


def holder(server: ApiServer) -> str:
    """Return the holder of the lease; empty: there is none."""
    found = [raw for raw in server.all(LEASES) if raw["metadata"]["name"] == LEASE]
    return str(found[0]["spec"]["holderIdentity"]) if found else ""
