"""A pod that autoscalers see is hidden once no node would help it: they would go on buying nodes for it."""

import pytest

from apportion.scheduling.autoscaling import PATIENCE
from tests.observedcluster import request
from tests.scheduling.lookingfornodes import H200, said, seen, waits
from tests.scheduling.queued import fleet


@pytest.mark.parametrize("mode", ["WhenNothingFits", "WhenFull"])
@pytest.mark.parametrize("later", [False, True], ids=["the same operator", "a later one"])
def test_a_pod_that_is_seen_is_hidden_when_a_quota_keeps_it_waiting(mode: str, *, later: bool) -> None:
    """Others of its quota took what was left while it waited for a node: one that came would stand idle, go, and be bought once more."""
    world = fleet({"n1": ("h100", 1)})
    world.policy(queue={"autoscale": mode})
    waits(world, "p", request("gpu", expression=H200))
    over = set[str]()
    say = said(world, over)
    say()
    world.clock.now += PATIENCE
    assert say() == {"p": True}
    seen(world, "p")
    say()
    world.clock.now += PATIENCE
    assert say() == {}
    claim = world.snapshot.claim("team", "p")
    assert claim is not None
    over.add(claim.uid)
    say = said(world, over) if later else say
    found = dict[str, bool]()
    for _ in range(3):
        found |= say()
        world.clock.now += PATIENCE
    assert found == {"p": False}
    over.clear()
    waits(world, "p", request("gpu", expression=H200))
    found.clear()
    for _ in range(3):
        found |= say()
        world.clock.now += PATIENCE
    assert found == {"p": True}


@pytest.mark.parametrize("mode", ["WhenNothingFits", "WhenFull"])
def test_a_pod_that_is_seen_is_hidden_when_its_policy_says_never(mode: str) -> None:
    """Who turns it off wants no more nodes for those that wait already, either."""
    world = fleet({"n1": ("h100", 1)})
    world.policy(queue={"autoscale": mode})
    waits(world, "p", request("gpu", expression=H200))
    say = said(world)
    say()
    world.clock.now += PATIENCE
    assert say() == {"p": True}
    seen(world, "p")
    say()
    world.policy(queue={"autoscale": "Never"})
    found = dict[str, bool]()
    for _ in range(3):
        found |= say()
        world.clock.now += PATIENCE
    assert found == {"p": False}
