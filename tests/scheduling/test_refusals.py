"""Demands of one shape are refused together, until something happens that may let them in."""

import sys
from types import FrameType
from typing import Any

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import PODS
from apportion.scheduling.cycle import Cycle
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.queued import fleet

NODES = 40


def full(waiting: int, *, wanted: Json | None = None) -> ObservedCluster:
    """Return nodes whose devices are all held, and claims that wait for one each."""
    world = fleet({f"n{number:02}": ("common", 2) for number in range(NODES)})
    for number in range(NODES):
        world.allocate(world.claim(f"held-{number}"), f"n{number:02}", "gpu-0", "gpu-1")
    for number in range(waiting):
        world.wait_for(f"c{number:03}", wanted or request("gpu"))
    return world


def explained(cycle: Cycle) -> int:
    """Make a pass; return how many refusals were explained in it."""
    return calls(cycle, "explain")


def calls(cycle: Cycle, function: str) -> int:
    """Make a pass; return how often a function of this name was called in it."""
    count = 0

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_name == function

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        cycle.once()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.slow
@pytest.mark.parametrize("waiting", [3, 200])
async def test_equal_claims_are_explained_once(unanswered: Client, waiting: int) -> None:
    """Each still gets its Event; and a pod that ends elsewhere costs at most one more."""
    world = full(waiting)
    pod = world.pod("ends", spec={"nodeName": "n00"})
    cycle = world.cycle(unanswered)

    assert explained(cycle) <= 2

    texts = {name: text for name, reason, text in world.messages if reason == "NotAllocated"}
    assert texts.keys() == {f"c{number:03}" for number in range(waiting)}
    assert all(f"claim team/{name}," in text for name, text in texts.items())
    assert explained(cycle) == 0
    world.gone(PODS, pod)
    assert explained(cycle) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("shapes", [1, 100])
async def test_a_pod_that_ends_costs_a_look_at_the_nodes_for_each_shape_only(
    unanswered: Client, shapes: int
) -> None:
    """Nobody can be served by it: devices are missing, not cpu. A few looks are for what is reserved."""
    world = full(0)
    for number in range(200):
        requests = {"resources": {"requests": {"cpu": f"{100 + number % shapes}m"}}}
        wanted = {"containers": [{"name": "main", **requests}]}
        world.wait_for(f"c{number:03}", request("gpu"), spec=wanted)
    pod = world.pod("ends", spec={"nodeName": "n00"})
    cycle = world.cycle(unanswered)
    cycle.once()
    world.gone(PODS, pod)

    assert calls(cycle, "against") <= (shapes + 12) * NODES


@pytest.mark.slow
async def test_what_becomes_free_goes_to_the_first_that_waits(unanswered: Client) -> None:
    """A refusal does not outlive what it lacked."""
    world = full(200)
    cycle = world.cycle(unanswered)
    cycle.once()
    before = set(world.places())

    world.gone(PODS, world.pod("ends", spec={"nodeName": "n00"}))
    world.gone_claim("held-7")
    cycle.once()

    assert set(world.places()) - before == {"c000", "c001"}


async def test_a_refusal_by_room_ends_when_a_pod_ends(unanswered: Client) -> None:
    """Devices are free all the time; the pods lack cpu."""
    world = fleet({"n0": ("common", 4)})
    big = world.pod("big", spec={"nodeName": "n0"})
    big["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "64"
    world.see(PODS, big)
    for name in ("a", "b"):
        world.wait_for(name, request("gpu"))
    cycle = world.cycle(unanswered)
    cycle.once()
    assert world.places() == {}

    world.gone(PODS, big)
    cycle.once()

    assert world.places().keys() == {"a", "b"}


async def test_a_claim_with_more_nodes_is_asked_although_its_like_was_refused(unanswered: Client) -> None:
    """The first may use one node only, which is full; the second any."""
    world = full(0)
    world.node("free", cpu="64", zone="b")
    world.slice("free", "free-devices", {"devices": [{"name": "gpu-0"}]}, 1)
    world.wait_for("bound", request("gpu"), spec={"nodeSelector": {"zone": "a"}})
    world.wait_for("free", request("gpu"))
    world.cycle(unanswered).once()
    assert "free" in world.places()
    assert "bound" not in world.places()
