"""A share that consumes next to nothing uses a device all the same: a limit that counts devices counts it."""

import pytest

from apportion.cluster.client import Client
from tests.observedcluster import request
from tests.quota.tenants import GPUS, cluster, quota, wait


@pytest.mark.parametrize("memory", ["0", "1"])
async def test_shares_that_consume_next_to_nothing_are_counted_as_devices(
    silent: Client, memory: str
) -> None:
    """A driver without a request policy for a capacity gives what is asked for: there was no end to them."""
    world = cluster(1, "a")
    device = {"name": "gpu-0", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "80Gi"}}}
    world.slice("n1", "n1-devices", {"devices": [device]}, 1)
    quota(world, "a", GPUS | {"limit": "50m"})
    for number in range(8):
        wait(world, "a", f"a-{number}", request("gpu", capacity={"requests": {"memory": memory}}), at=number)
    world.cycle(silent).once()
    assert len(world.places()) == 5
