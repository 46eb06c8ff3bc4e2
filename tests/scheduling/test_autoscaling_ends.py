"""What autoscalers see changes with what is true: of a quota, of a policy, and of what is held for a while."""

import pytest

from apportion.api.contract import GATE
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from apportion.scheduling.autoscaling.autoscaling import PATIENCE
from tests.observedcluster import GPU, request
from tests.scheduling.lookingfornodes import H200, said, seen, shown, waits
from tests.scheduling.queued import fleet
from tests.steps import steps


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


def test_a_pod_that_fits_nowhere_is_seen_once_what_is_held_for_others_is_not_held_any_more() -> None:
    """As long as it is, nobody knows what the node could serve; and no node or slice changes afterwards. A pod that is seen already stays so."""
    for seen_before in (False, True):
        world = fleet({"n1": ("h100", 1)})
        waits(world, "p", request("gpu", expression=H200))
        if seen_before:
            seen(world, "p")
        world.snapshot.state.hold("hold/move", (DeviceResult("r", DeviceId(GPU, "n1", "gpu-0")),))
        say = said(world)
        found = dict[str, bool]()
        for _ in range(3):
            found |= say()
            world.clock.now += PATIENCE
        assert found == {}
        world.snapshot.state.release("hold/move")
        for _ in range(2):
            found |= say()
            world.clock.now += PATIENCE
        assert found == ({} if seen_before else {"p": True})


def test_what_is_held_for_others_on_one_node_says_nothing_of_those_like_it() -> None:
    """Another node of its class is asked about."""
    world = fleet({"n1": ("h100", 1), "n2": ("h100", 1)})
    waits(world, "p", request("gpu", expression=H200))
    world.snapshot.state.hold("hold/move", (DeviceResult("r", DeviceId(GPU, "n1", "gpu-0")),))
    assert shown(world) == {"p"}


@pytest.mark.parametrize("nodes", [0, 1])
def test_pods_that_share_a_claim_are_shown_only_if_no_node_could_serve_one_of_them(nodes: int) -> None:
    """Each has a claim of its own beside it: no node has the devices for all, and on one of them some start and others wait for their end."""
    world = fleet({f"n{number}": ("h100", 2) for number in range(nodes)} | {"small": ("h100", 1)})
    for name in ("hub", "a", "b"):
        world.claim(name)
    for name in ("a", "b"):
        world.pod(name, "hub", name, gates=[GATE])
    assert shown(world) == ({"a", "b"} if nodes == 0 else set())


@pytest.mark.parametrize("are_seen", [False, True], ids=["not seen yet", "seen"])
def test_a_pass_costs_nothing_for_what_was_said_a_moment_ago(*, are_seen: bool) -> None:
    """However many pods were shown."""
    counts = []
    for pods in (4, 60):
        world = fleet({"n1": ("h100", 1)})
        for number in range(pods):
            waits(world, f"p{number}", request("gpu", expression=H200))
        say = said(world)
        say()
        world.clock.now += PATIENCE
        assert len(say()) == pods
        for number in range(pods if are_seen else 0):
            seen(world, f"p{number}")
        say()
        counts.append(steps(say))
    assert counts[0] == counts[1]
