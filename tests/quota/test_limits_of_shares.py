"""A limit of one model leaves shares of devices of another one."""

import pytest

from apportion.cluster.client import Client
from tests.observedcluster import request
from tests.quota.tenants import cluster, quota, wait


@pytest.mark.parametrize("limit", [0, "100m"])
@pytest.mark.parametrize("limited", ["a100", "h100"])
async def test_a_share_is_of_the_model_that_the_limit_leaves(
    silent: Client, limited: str, limit: int | str
) -> None:
    """An eighth of a device is too much of the one, and the other is free."""
    world = cluster(0, "a")
    for model in ("a100", "h100"):
        shared = {
            "name": model,
            "attributes": {"model": {"string": model}},
            "capacity": {"memory": {"value": "80Gi"}},
            "allowMultipleAllocations": True,
        }
        world.slice("n1", f"n1-{model}", {"devices": [shared]}, 1, pool=model)
    quota(world, "a", {"name": "r", "model": limited, "limit": limit})
    wait(world, "a", "a0", request("gpu", capacity={"requests": {"memory": "10Gi"}}))
    wait(world, "a", "a1", request("gpu", capacity={"requests": {"memory": "10Gi"}}), at=1)
    world.cycle(silent).once()
    found = [world.snapshot.allocation(claim) for claim in world.snapshot.claims.values()]
    taken = [result.device.pool for each in found if each is not None for result in each.results]
    assert taken == [({"a100", "h100"} - {limited}).pop()] * 2


async def test_an_alternative_within_the_limit_is_taken_where_some_other_device_gives_shares(
    silent: Client,
) -> None:
    """How much a request takes at least is not known then before devices are chosen; the first choice is beyond the limit."""
    world = cluster(4, "a")
    shared = {"name": "nic", "capacity": {"bw": {"value": "8"}}, "allowMultipleAllocations": True}
    world.slice("n1", "n1-nic", {"devices": [shared]}, 1, pool="nic")
    quota(world, "a", {"name": "r", "deviceClass": "gpu", "limit": 2})
    either = [{"name": f"s{count}", "deviceClassName": "gpu", "count": count} for count in (2, 1)]
    wait(world, "a", "a0", request("gpu"), {"name": "either", "firstAvailable": either})
    world.cycle(silent).once()
    [found] = [world.snapshot.allocation(claim) for claim in world.snapshot.claims.values()]
    assert found is not None
    assert [result.request for result in found.results] == ["gpu", "either/s1"]
