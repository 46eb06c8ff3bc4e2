"""What a replica knows of partitions from an earlier term of its own: others have led since."""

import asyncio

from apportion.cluster.kinds import PARTITIONS
from apportion.partitions.controller import PartitionController
from testbed.beside import beside
from tests.observedcluster import GPU, Json, ObservedCluster
from tests.partitions.manycards import controller
from tests.partitions.onecard import FIRST
from tests.partitions.test_leaving_partitions import Server

TIMEOUT = 300.0


async def test_a_partition_that_was_used_since_the_last_term_idles_from_the_next_one_on() -> None:
    """Its idle timeout counted over the term of another leader, who had handed it to a claim: it was cut anew for the next one."""
    world, server = ObservedCluster(), Server()
    world.node("n1")
    world.card("n1")
    world.device_class("gpu")
    show(world, {})
    async with server.client() as client:
        acting = controller(world, client)
        await term(acting)
        world.clock.now += TIMEOUT - 1
        claim = world.allocate(world.claim("c"), "n1", FIRST)
        name, uid = claim["metadata"]["name"], claim["metadata"]["uid"]
        show(world, {"holder": {"kind": "ResourceClaim", "namespace": "team", "name": name, "uid": uid}})
        world.gone_claim("c")
        show(world, {})
        world.clock.now += 1
        await term(acting)
        assert server.deleted == []
        world.clock.now += TIMEOUT
        await acting.act()
        assert set(server.deleted) == {f"n1-{FIRST}"}


def show(world: ObservedCluster, holder: Json) -> None:
    """Show the partition with a holder, or idle."""
    spec = {
        "nodeName": "n1", "driver": GPU, "pool": "n1", "device": FIRST, "parent": "gpu-0", "profile": "1g.10gb",
        "placement": {"start": 0, "size": 1}, "origin": "Claim", **holder,
    }  # fmt: skip
    status = {"phase": "Ready" if holder else "Idle", "uuid": "MIG-1"}
    world.see(PARTITIONS, {"metadata": {"name": f"n1-{FIRST}"}, "spec": spec, "status": status})


async def term(acting: PartitionController) -> None:
    """Act once in a term of its own."""
    async with beside(acting.run()):
        await asyncio.sleep(0)
        await acting.act()
