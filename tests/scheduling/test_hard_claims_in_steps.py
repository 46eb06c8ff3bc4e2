"""A claim whose search takes exponential time: others run in between, and it is refused as what was given up."""

import random

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, SLICES
from tests.observedcluster import GPU, ObservedCluster, request
from tests.scheduling.longeststep import longest_step, served_before

pytestmark = pytest.mark.slow

ATTRIBUTES = ("p", "q", "t")
MOST_CALLS = 200_000
"""Functions that are called between two yields: some hundredths of a second."""


def hard_world(nodes: int) -> ObservedCluster:
    """Return nodes of 112 devices with random values of three attributes."""
    world = ObservedCluster()
    world.device_class("gpu")
    rng = random.Random(1)  # noqa: S311 - a test that can be repeated
    for number in range(nodes):
        world.node(f"n{number}", cpu="64")
        rows = [
            {"name": f"d{index}", "attributes": {key: {"int": rng.randrange(24)} for key in ATTRIBUTES}}
            for index in range(112)
        ]
        world.slice(f"n{number}", f"n{number}-devices", {"devices": rows}, 1)
    return world


def hard_claim(world: ObservedCluster, number: int, count: int, *selectors: str) -> None:
    """Let a pod wait for so many devices that differ pairwise in all attributes; `selectors`: of the first."""
    rows = [request("gpu", name=f"r{row}") for row in range(count)]
    rows[0]["exactly"]["selectors"] = [{"cel": {"expression": text}} for text in selectors]
    constraints = [{"distinctAttribute": f"{GPU}/{name}"} for name in ATTRIBUTES]
    devices = {"requests": rows, "constraints": constraints}
    world.see(CLAIMS, {"metadata": {"name": f"c{number}", "namespace": "team"}, "spec": {"devices": devices}})
    world.pod(f"p{number}", f"c{number}", gates=(GATE,))


@pytest.mark.parametrize("pods", [1, 2], ids=["one pod", "planned together"])
async def test_no_step_of_a_pass_takes_long(unanswered: Client, pods: int) -> None:
    """Devices that differ pairwise in three attributes: a claim of one tenant held all others for seconds."""
    world = hard_world(2)
    cycle = served_before(world, unanswered)
    for pod in range(pods):
        hard_claim(world, pod, 24)
    assert longest_step(cycle) < MOST_CALLS
    assert world.places().keys() == {"before"}
    [text] = {text for name, reason, text in world.messages if (name, reason) == ("c0", "NotAllocated")}
    assert "gave up" in text, text


async def test_no_step_takes_long_where_kube_scheduler_allocates_such_a_claim(unanswered: Client) -> None:
    """On which nodes it fits was searched on all of them in one step, when a pod with such a claim came: two seconds on 300 nodes."""
    world = hard_world(1)
    world.device_class("theirs", 'device.driver == "nic.example.com"', unmanaged="yes")
    rng = random.Random(2)  # noqa: S311 - a test that can be repeated
    for number in range(8):
        name = f"m{number}"
        world.node(name, cpu="64")
        world.slice(name, f"{name}-devices", {"devices": [{"name": "d0"}]}, 1)
        rows = [
            {"name": f"nic{index}", "attributes": {key: {"int": rng.randrange(24)} for key in ATTRIBUTES}}
            for index in range(112)
        ]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "nic.example.com", "nodeName": name, "pool": pool, "devices": rows}
        world.see(SLICES, {"metadata": {"name": f"nic-{name}"}, "spec": spec})
    cycle = served_before(world, unanswered)
    devices = {
        "requests": [request("theirs", name=f"r{number}") for number in range(24)],
        "constraints": [{"distinctAttribute": f"nic.example.com/{name}"} for name in ATTRIBUTES],
    }
    world.see(CLAIMS, {"metadata": {"name": "nics", "namespace": "team"}, "spec": {"devices": devices}})
    world.claim("ours", request("gpu"))
    world.pod("p", "ours", "nics", gates=(GATE,))
    assert longest_step(cycle) < MOST_CALLS
    assert world.places().keys() == {"before"}


async def test_a_claim_whose_search_is_given_up_is_not_shown_to_autoscalers(unanswered: Client) -> None:
    """What no search has found out was told as a fact: no node could serve the pod even if everything were free. The search was one step of half a second."""
    world = hard_world(2)
    cycle = served_before(world, unanswered)
    devices = {
        "requests": [request("gpu", name=f"r{number}") for number in range(24)],
        "constraints": [{"distinctAttribute": f"{GPU}/{name}"} for name in ATTRIBUTES],
    }
    world.see(CLAIMS, {"metadata": {"name": "c", "namespace": "team"}, "spec": {"devices": devices}})
    world.pod("p", "c", gates=(GATE,))
    for _ in range(3):
        assert longest_step(cycle) < MOST_CALLS
        world.clock.now += 12
    assert ("c", "NotAllocated") in world.warned
    assert "ShownToAutoscalers" not in {reason for _, reason, _ in world.messages}


async def test_no_step_takes_long_where_devices_are_reserved_for_such_claims(unanswered: Client) -> None:
    """A plan of a reservation asks about each node as it will be, which takes a search each time."""
    world = hard_world(2)
    for node in range(2):
        world.allocate(world.claim(f"kept{node}"), f"n{node}", "d5")
        world.pod(f"stuck{node}", f"kept{node}")
    cycle = served_before(world, unanswered)
    for number in range(2):
        hard_claim(world, number, 23 + number, *([f"{number} > 0"] if number else ()))
    assert longest_step(cycle) < MOST_CALLS
