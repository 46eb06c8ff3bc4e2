"""What a limit leaves of a demand is asked anew when devices begin to give shares."""

from apportion.cluster.client import Client
from tests.observedcluster import Json, ObservedCluster, request
from tests.quota.tenants import cluster, quota, said, wait


def publish(world: ObservedCluster, *, shared: bool) -> None:
    """Publish a device of 8Gi, which gives shares of at least 1Gi, or none."""
    memory: Json = {"value": "8Gi"}
    if shared:
        memory["requestPolicy"] = {"default": "1Gi", "validRange": {"min": "1Gi"}}
    device = {"name": "gpu-0", "allowMultipleAllocations": shared, "capacity": {"memory": memory}}
    world.slice("n1", "n1-shares", {"devices": [device]}, 1, pool="shares")


async def test_who_waited_for_its_quota_as_a_whole_device_gets_a_share(silent: Client) -> None:
    """The limit leaves half a device. It waited until another claim of the namespace came or went."""
    world = cluster(0, "a")
    publish(world, shared=False)
    quota(world, "a", limit="500m")
    wait(world, "a", "a0", request("gpu", capacity={"requests": {"memory": "4Gi"}}))
    cycle = world.cycle(silent)
    cycle.once()
    assert world.places() == {}
    assert said(world, "a0", "ExceedsLimit")
    publish(world, shared=True)
    cycle.once()
    assert world.places().keys() == {"a0"}
