"""Groups whose pods share a claim with pods of another group: nobody serves that claim, so neither group starts."""

import pytest

from apportion.cluster.client import Client
from tests.observedcluster import ObservedCluster
from tests.scheduling.givenback import tried
from tests.scheduling.podgroups import member


def joined(least: str) -> ObservedCluster:
    """One member of group g has its devices, the other shares a claim with a pod of another group."""
    world = ObservedCluster()
    world.device_class("gpu")
    world.node("n1")
    world.slice("n1", "s", {"devices": [{"name": "gpu-0"}]}, 1)
    world.allocate(world.claim("c0"), "n1", "gpu-0")
    member(world, "p0", "c0", least=least)
    world.claim("shared")
    member(world, "p1", "shared", least=least)
    member(world, "q", "shared", group="other", least="1")
    return world


@pytest.mark.parametrize(("least", "found"), [("2", ["c0"]), ("1", [])])
async def test_such_a_group_keeps_no_device_unless_it_has_enough_without_the_claim(
    unanswered: Client, least: str, found: list[str]
) -> None:
    """As any other group that cannot be completed."""
    world = joined(least)
    assert await tried(world.cycle(unanswered)) == found
    assert ("p1", "BrokenGroup") in world.warned
