"""Those for whom pods were evicted are decided about in steps where that takes a long search."""

import asyncio
import random

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS
from apportion.scheduling.cycle import Cycle
from tests.clock import Ticking
from tests.observedcluster import GPU, ObservedCluster, request
from tests.scheduling.evicting import SteeredEvictor, ends, waits
from tests.scheduling.longeststep import longest_step

pytestmark = pytest.mark.slow

ATTRIBUTES = ("p", "q", "t")
COUNT = 24
MOST_CALLS = 200_000
"""Functions that are called between two yields: some hundredths of a second."""


def world_with_one_key() -> ObservedCluster:
    """Return a node on which devices that differ in three attributes are found at once with the one that a pod of low priority has, and hardly without."""
    world = ObservedCluster()
    world.clock = Ticking(world.clock.now, step=0.0)
    world.device_class("gpu")
    world.node("n1", cpu="64")
    rng = random.Random(1)  # noqa: S311 - a test that can be repeated
    values = [{key: {"int": index} for key in ATTRIBUTES} for index in range(COUNT)]
    values += [{key: {"int": rng.randrange(COUNT)} for key in ATTRIBUTES} for _ in range(88)]
    rows = [{"name": f"d{index:03}", "attributes": each} for index, each in enumerate(values)]
    world.slice("n1", "n1-devices", {"devices": rows}, 1)
    world.policy(
        preemption={"mode": "LowerPriority", "after": "0s", "minRuntime": "0s"}, queue={"mostReserved": 0}
    )
    claim = world.claim("low", request("gpu"), namespace="team")
    pod = world.pod("low", "low", spec={"nodeName": "n1", "priority": 0}, namespace="team")
    user = {"resource": "pods", "name": "low", "uid": pod["metadata"]["uid"]}
    world.allocate(claim, "n1", f"d{COUNT - 1:03}", timestamp=world.time(-3600.0), reservedFor=[user])
    return world


async def evicting(client: Client) -> tuple[ObservedCluster, Cycle]:
    """Return such a cluster, in which that pod is being evicted for one that asks for so many different devices."""
    world = world_with_one_key()
    cycle = world.cycle(client, evictor=SteeredEvictor(world))
    # What is found out once counts for no step.
    waits(world, "before", 1, -1)
    cycle.once()
    ends(world, "before")
    rows = [request("gpu", name=f"r{row}") for row in range(COUNT)]
    constraints = [{"distinctAttribute": f"{GPU}/{name}"} for name in ATTRIBUTES]
    devices = {"requests": rows, "constraints": constraints}
    world.see(CLAIMS, {"metadata": {"name": "high", "namespace": "team"}, "spec": {"devices": devices}})
    world.pod("high", "high", gates=(GATE,), spec={"priority": 5}, namespace="team")
    world.clock.now += 1.5
    cycle.once()
    for _ in range(5):
        await asyncio.sleep(0)
    assert cycle.preemptions.active
    return world, cycle


def changes(world: ObservedCluster, number: int) -> None:
    """Let another pod have a device of the node: it is one that was not searched."""
    world.allocate(world.claim(f"other-{number}"), "n1", f"d{100 + number}", reservedFor=[])
    world.pod(f"other-{number}", f"other-{number}", spec={"nodeName": "n1"})
    world.clock.now += 1.5


async def test_no_step_takes_long_while_victims_end(unanswered: Client) -> None:
    """Whether the devices are free was asked in one step whenever something changed on the node: two and a half million calls for a claim of one tenant."""
    world, cycle = await evicting(unanswered)
    longest = []
    for number in range(3):
        changes(world, number)
        longest.append(longest_step(cycle))
    ends(world, "low")
    world.clock.now += 1.5
    longest.append(longest_step(cycle))
    assert world.places()["high"] == "n1"
    assert max(longest) < MOST_CALLS, longest


async def test_such_a_search_goes_on_in_the_next_pass(unanswered: Client) -> None:
    """A tenth of a second of each is for it; what is kept stays so until it has ended."""
    world, cycle = await evicting(unanswered)
    assert isinstance(world.clock, Ticking)
    world.clock.step = 0.06
    changes(world, 0)
    cycle.once()
    assert cycle.preemptions.go_on
    ends(world, "low")
    waits(world, "lower", 1, 4)
    passes = 0
    while cycle.preemptions.go_on:
        cycle.once()
        passes += 1
        assert passes < 100
    assert world.places()["high"] == "n1"
