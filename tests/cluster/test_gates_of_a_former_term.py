"""A replica that loses the lease and has it once more while the removal of one gate is not answered."""

import asyncio

from aiohttp import web

from apportion.api.contract import GATE
from apportion.cluster.kinds import PODS
from apportion.settings import LeaseSettings
from testbed.eventually import eventually
from tests.cluster.apiserver import ApiServer, failed
from tests.cluster.emptyserver import server
from tests.cluster.replica import claim, devices, replica, two_devices
from tests.observedcluster import ObservedCluster

__all__ = ["server"]


async def test_who_leads_once_more_acts_though_one_gate_cannot_be_removed(server: ApiServer) -> None:
    """The removal of the former term was tried on and on, and no pass was made before it had ended."""
    two_devices(server)
    server.put(PODS, ObservedCluster().pod("p", gates=[GATE]))
    lost = False

    def outage(request: web.Request) -> web.Response | None:
        if request.method == "PATCH" and "/pods/" in request.path:
            return failed(500, "failed calling webhook")
        return failed(504, "timeout") if lost and "/leases/" in request.path else None

    async def tries() -> int:
        return sum(method == "PATCH" and "/pods/" in path for method, path in server.requests)

    async def served() -> bool:
        return bool(devices(server))

    server.fault = outage
    async with replica(server, LeaseSettings(duration=3.0, renew=0.2, reserve=0.5)) as app:
        await eventually(tries, lambda found: found >= 4)
        lost = True
        async with asyncio.timeout(60):
            await app.lease.lost.wait()
            lost = False
            await app.lease.gained.wait()
        claim(server, "late")
        await eventually(served)
