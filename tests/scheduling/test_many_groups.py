"""Thousands of groups wait: which there are is found out in steps, and once for those of which nothing changed."""

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import POD_GROUPS, PODS
from apportion.scheduling.demands.groups import has_all, with_demands
from apportion.scheduling.pace import AT_ONCE
from tests.observedcluster import ObservedCluster, request
from tests.scheduling.longeststep import longest_step
from tests.scheduling.podgroups import OURS
from tests.scheduling.queued import fleet
from tests.steps import Steps

GROUPS = 3 * AT_ONCE


def sized(world: ObservedCluster, name: str, least: int, *, native: bool) -> None:
    """Say how many pods a group has at least: `native`, by an object."""
    spec = {"schedulingGroup": {"podGroupName": name}} if native else None
    pod = world.pod(name, name, gates=(GATE,), spec=spec)
    if native:
        gang = {"schedulingPolicy": {"gang": {"minCount": least}}}
        world.see(POD_GROUPS, {"metadata": {"name": name, "namespace": "team"}, "spec": gang})
    else:
        pod["metadata"] |= {"labels": {OURS[0]: name}, "annotations": {OURS[1]: str(least)}}
        world.see(PODS, pod)


@pytest.mark.parametrize("sizes", ["annotations", "objects"])
async def test_groups_are_put_together_in_steps_and_anew_where_something_changed(
    sizes: str, silent: Client
) -> None:
    """All groups of PodGroup objects were in each pass, at once: 0.07 s for 5,000 pods, and in proportion for more."""
    world = fleet({"n1": ("h100", 1)})
    for number in range(GROUPS):
        world.claim(f"g{number}", request("gpu", count=2))
        sized(world, f"g{number}", 1, native=sizes == "objects")
    cycle = world.cycle(silent)
    assert longest_step(cycle, with_demands) <= AT_ONCE
    found = []
    for least in (1, 2, 2):
        if least > 1:
            sized(world, "g1", least, native=sizes == "objects")
        with Steps(with_demands) as counted:
            cycle.once()
        found.append(counted.count)
        world.clock.now += 10.0
    assert found == [0, 1, 1]
    assert world.warned.count(("g1", "GroupIncomplete")) >= 1


async def test_a_large_group_is_put_together_in_steps(silent: Client) -> None:
    """Whenever one of its pods changed: 5,000 of them took 0.03 s in one step."""
    world = fleet({"n1": ("h100", 1)})
    many = 3 * AT_ONCE
    for number in range(many):
        sized(world, f"p{number}", many, native=False)
        pod = world.seen[PODS, "team", f"p{number}"]
        pod["metadata"]["labels"] = {OURS[0]: "g"}
        world.see(PODS, pod)
    world.claim("p0")  # all others wait for their claims
    assert 0 < longest_step(world.cycle(silent), has_all) <= AT_ONCE
