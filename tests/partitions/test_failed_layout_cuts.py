"""Claims that have a layout's partition which could not be made anew after a reset."""

import asyncio

import pytest

from apportion.api.contract import GATE
from apportion.cluster.kinds import CLAIMS, PARTITIONS
from testbed.eventually import eventually
from tests.cluster.apiserver import ApiServer
from tests.observedcluster import request
from tests.partitions.test_leaving_partitions import STATIC, cut, partition


@pytest.mark.parametrize("gates", [[GATE], []])
async def test_a_claim_whose_layouts_partition_cannot_be_cut_anew_goes_elsewhere(gates: list[str]) -> None:
    """Its pod waited behind its gate for as long as the card refused; a pod that is about to be bound keeps it."""
    world = cut()
    raw = world.allocate(world.claim("a", request("gpu")), "n1", STATIC.name)
    pod = world.pod("a", "a", gates=gates)
    if not gates:
        user = {"resource": "pods", "name": "a", "uid": pod["metadata"]["uid"]}
        raw = world.see(CLAIMS, raw | {"status": raw["status"] | {"reservedFor": [user]}})
    world.see(PARTITIONS, partition(world) | {"status": {"phase": "Failed"}})
    async with ApiServer().serving() as server, server.client() as client:
        server.put(CLAIMS, raw)
        world.cycle(client).once()

        async def asked() -> bool:
            return any("resourceclaims/a" in path for _, path in server.requests)

        if gates:
            await eventually(asked)
        else:
            await asyncio.sleep(0.3)
            assert not await asked()
