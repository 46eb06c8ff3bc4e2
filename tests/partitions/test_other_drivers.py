"""Cards of other drivers, which cut by themselves: no agent of ours would answer for a Partition there."""

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, SLICES
from apportion.partitions.dynamicpartitions import DynamicPartitions
from tests.partitions.layoutworld import cards, plan
from tests.partitions.manycards import controller
from tests.partitions.onecard import FIRST

OTHER = "gpu.nvidia.com"


async def test_devices_of_another_driver_become_no_partitions(unanswered: Client) -> None:
    """NVIDIA's driver publishes MIG devices as ours does, and cuts them when kubelet prepares a claim: a pod must not wait for us."""
    world = cards()
    for name in ("counters", "devices"):
        raw = world.seen[SLICES, "", f"n1-gpu-0-{name}"]
        world.gone(SLICES, raw)
        metadata = {"name": f"other-{name}"}
        world.see(SLICES, raw | {"metadata": metadata, "spec": raw["spec"] | {"driver": OTHER}})
    world.device_class("gpu")
    world.policy(partitions={"warm": [{"profile": "1g.10gb", "count": 1}]})
    world.layout()
    raw = world.allocate(world.claim("a"), "n1", FIRST)
    raw["status"]["allocation"]["devices"]["results"][0]["driver"] = OTHER
    world.see(CLAIMS, raw)
    found = world.snapshot.claim("team", "a")
    assert found is not None
    assert DynamicPartitions(world.clock).actions(world.snapshot) == []
    assert plan(world).desired == set()
    assert controller(world, unanswered).phase(found) is None
