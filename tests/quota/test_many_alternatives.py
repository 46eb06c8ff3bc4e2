"""What limits leave of claims with many alternatives is found out in steps: a pod names up to 64 claims, each of up to 32 requests of eight alternatives."""

from typing import Any

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.quota.resource import Resource
from apportion.scheduling.quota.parts import parts_within
from tests.observedcluster import ObservedCluster
from tests.quota.tenants import cluster, quota, wait
from tests.scheduling.longeststep import longest_step
from tests.steps import Steps

CLAIMS_EACH, REQUESTS, ALTERNATIVES, ENTRIES = 64, 4, 8, 8
_ONE_CLAIM = REQUESTS * ALTERNATIVES * ENTRIES
"""How often a request is compared with an entry of the quota to know one claim."""


def many_alternatives(world: ObservedCluster, *, pods: int = 1) -> None:
    """Let pods wait that all name the same claims."""
    names = [f"c{number}" for number in range(CLAIMS_EACH)]
    for name in names:
        either = [
            {"name": f"a{count}", "deviceClassName": "gpu", "count": count}
            for count in range(1, ALTERNATIVES + 1)
        ]
        # Equal requests of several claims are one object.
        requests = [{"name": f"{name}-{each}", "firstAvailable": either} for each in range(REQUESTS)]
        world.see(CLAIMS, {"metadata": _named(name), "spec": {"devices": {"requests": requests}}})
    spec = {"resourceClaims": [{"name": name, "resourceClaimName": name} for name in names]}
    for number in range(pods):
        world.see(PODS, {"metadata": _named(f"p{number}"), "spec": spec | {"containers": [{"name": "main"}]}})


def _named(name: str) -> dict[str, Any]:
    return {"name": name, "namespace": "a"}


@pytest.mark.parametrize("more", [0, 3, ALTERNATIVES])
async def test_what_the_limits_leave_of_many_alternatives_is_found_out_in_steps(
    more: int, unanswered: Client
) -> None:
    """All alternatives, some, or only the first ones: half a million comparisons took 0.3 s, anew whenever the quota's use changed."""
    world = cluster(8, "a")
    least = CLAIMS_EACH * REQUESTS
    rows = [
        {"name": f"r{number}", "deviceClass": "gpu", "limit": least + more + 1} for number in range(ENTRIES)
    ]
    quota(world, "a", *rows)
    wait(world, "a", "before")
    cycle = world.cycle(unanswered)
    cycle.once()
    many_alternatives(world)
    assert longest_step(cycle, Resource.least) <= 2 * _ONE_CLAIM
    wait(world, "a", "other", at=1)
    assert longest_step(cycle, Resource.least) <= 2 * _ONE_CLAIM


async def test_which_of_many_pods_a_limit_leaves_is_found_out_in_steps_and_once(unanswered: Client) -> None:
    """256 pods beyond their limit that name the same claims took 5.7 s, in every pass."""
    world = cluster(8, "a")
    quota(world, "a", limit=1)
    wait(world, "a", "before")
    cycle = world.cycle(unanswered)
    cycle.once()
    many_alternatives(world, pods=32)
    assert longest_step(cycle, Resource.least) <= 2 * _ONE_CLAIM
    assert len(cycle.quotas.over) == 1
    cycle.once()
    with Steps(parts_within) as counted:
        cycle.once()
    assert counted.count == 0
