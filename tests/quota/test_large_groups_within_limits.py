"""What a large group takes of a limit is found out in steps, before it is decided and when its devices are chosen."""

from collections.abc import Callable

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import NODES, PODS
from apportion.quota.charge import charge
from apportion.quota.least import least
from apportion.scheduling.pace import AT_ONCE
from tests.observedcluster import ObservedCluster, request
from tests.quota.tenants import cluster, quota
from tests.scheduling.longeststep import longest_step
from tests.scheduling.podgroups import OURS
from tests.steps import Steps

PODS_OF_GROUP = 3 * AT_ONCE


def large(limit: int) -> ObservedCluster:
    """Return a group of pods that want a GPU each, all of which there are, under a limit."""
    world = cluster(PODS_OF_GROUP, "a")
    quota(world, "a", limit=limit)
    for number in range(PODS_OF_GROUP):
        name = f"p{number}"
        world.claim(name, request("gpu"), namespace="a")
        pod = world.pod(name, name, gates=(GATE,), namespace="a")
        pod["spec"]["containers"] = [{"name": "main", "resources": {"requests": {"cpu": "10m"}}}]
        pod["metadata"] |= {"labels": {OURS[0]: "g"}, "annotations": {OURS[1]: str(PODS_OF_GROUP)}}
        world.see(PODS, pod)
    return world


@pytest.mark.parametrize("looked_at", [charge, least])
async def test_it_is_charged_in_steps(looked_at: Callable[..., object], silent: Client) -> None:
    """A group of 2,000 pods was compared with its limit, and charged, in one step of 0.15 s, in which nobody else was served."""
    world = large(PODS_OF_GROUP)
    cycle = world.cycle(silent)
    assert longest_step(cycle, looked_at) <= AT_ONCE
    assert len(world.places()) == PODS_OF_GROUP


async def test_nothing_of_it_is_granted_beyond_the_limit(silent: Client) -> None:
    """One pod more than the limit leaves: none of them starts."""
    world = large(PODS_OF_GROUP - 1)
    cycle = world.cycle(silent)
    cycle.once()
    assert not world.places()
    assert ("p0", "ExceedsLimit") in world.warned


async def test_nothing_of_it_is_granted_on_a_node_that_is_lost_meanwhile(silent: Client) -> None:
    """The node gets a taint when it is being found out what the devices there take."""
    world = large(PODS_OF_GROUP)
    steps, reading = world.cycle(silent)._pass(longest=1e9, evaluates=False), False
    while not reading:
        with Steps(charge) as counted:
            next(steps)
        reading = counted.count > 0
    taints = [{"key": "broken", "effect": "NoSchedule"}]
    world.see(NODES, world.node("n1", cpu="64") | {"spec": {"taints": taints}})
    for _ in steps:
        pass
    assert not world.places()
