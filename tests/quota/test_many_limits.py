"""A quota with a limit for each of many models: devices are found whichever of them the limits leave."""

import pytest

from apportion.cluster.client import Client
from tests.observedcluster import ObservedCluster, request
from tests.quota.tenants import cluster, quota, wait

MODELS = 32
"""As many entries as a quota may have."""


def many_models(left: int, limit: int = 1) -> ObservedCluster:
    """Two devices of each model; the quota of tenant `a` leaves some of one model alone."""
    world = cluster(0, "a")
    for model in range(MODELS):
        named = {"productName": {"string": f"model-{model}"}}
        devices = [{"name": f"gpu-{model}-{number}", "attributes": named} for number in range(2)]
        world.slice("n1", f"n1-{model}", {"devices": devices}, 1, pool=f"pool-{model}")
    rows = [
        {"name": f"m{model}", "model": f"model-{model}", "limit": limit if model == left else 0}
        for model in range(MODELS)
    ]
    quota(world, "a", *rows)
    return world


def got(world: ObservedCluster, name: str) -> set[str]:
    """Return the pools of the devices that a claim has."""
    claim = world.snapshot.claim("a", name)
    assert claim is not None
    allocation = world.snapshot.allocation(claim)
    return {result.device.pool for result in allocation.results} if allocation is not None else set()


@pytest.mark.parametrize("left", [0, 7, 8, 9, MODELS - 1])
async def test_the_one_model_that_the_limits_leave_is_found(left: int, silent: Client) -> None:
    """The allocator may choose any other one before."""
    world = many_models(left)
    wait(world, "a", "a0")
    wait(world, "a", "a1", at=1)
    world.cycle(silent).once()
    assert got(world, "a0") == {f"pool-{left}"}
    assert got(world, "a1") == set()


@pytest.mark.slow
async def test_each_request_of_a_claim_finds_it(silent: Client) -> None:
    """What is left out for one request is asked about once more for the other."""
    world = many_models(MODELS - 1, limit=2)
    wait(world, "a", "a0", request("gpu", name="one"), request("gpu", name="two"))
    world.cycle(silent).once()
    assert got(world, "a0") == {f"pool-{MODELS - 1}"}
