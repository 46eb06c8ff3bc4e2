"""How much work a pass is: it follows what changed, not how many nodes there are."""

import asyncio

import pytest

from apportion.allocator.facts.inventory import Inventory
from apportion.cluster.client import Client
from apportion.cluster.kinds import PODS
from tests.observedcluster import ObservedCluster, request
from tests.scheduling.givenback import ended
from tests.scheduling.longeststep import longest_step
from tests.scheduling.queued import fleet
from tests.steps import steps


def full(nodes: int) -> ObservedCluster:
    """Return nodes with a device each, all but one in use, and a claim that waits for three devices."""
    world = fleet({f"n{number}": ("h100", 1) for number in range(nodes)})
    for number in range(1, nodes):
        name, reserved = f"c{number}", {"resource": "pods", "name": f"c{number}", "uid": f"u{number}"}
        world.allocate(world.claim(name), f"n{number}", "gpu-0", reservedFor=[reserved])
        world.pod(name, name, spec={"nodeName": f"n{number}"})
    world.wait_for("large", request("gpu", count=3))
    return world


def test_errors_of_pools_are_looked_for_between_two_yields_on_one_node_each(unanswered: Client) -> None:
    """At first on all: 1.4 s for 208,000 devices, in which nothing else was done."""
    world = fleet({f"n{number}": ("h100", 1) for number in range(20)})
    assert longest_step(world.cycle(unanswered), Inventory._examined) <= 2


@pytest.mark.slow
async def test_a_pass_without_news_costs_the_same_however_many_nodes_there_are(unanswered: Client) -> None:
    """Their room is not looked at again."""
    counts = []
    for nodes in (5, 50):
        world = full(nodes)
        cycle = world.cycle(unanswered)
        cycle.once()
        counts.append(steps(cycle.once))
    assert counts[0] == counts[1]


@pytest.mark.slow
async def test_a_pass_with_one_new_pod_looks_at_the_nodes_that_changed(unanswered: Client) -> None:
    """One pod ended, another of the same requests came: that is one node."""
    counts = []
    for nodes in (5, 50):
        world = full(nodes)
        cycle = world.cycle(unanswered)
        world.wait_for("first", request("gpu"))
        before = asyncio.all_tasks()
        cycle.once()
        assert world.places()["first"] == "n0"
        await ended(before)
        pod = world.pod("c1", "c1", spec={"nodeName": "n1"})
        pod["status"] = {"phase": "Failed"}
        world.see(PODS, pod)
        world.gone(PODS, {"metadata": {"name": "large", "uid": "uid-team-pods-large"}})
        world.wait_for("second", request("gpu"))
        counts.append(steps(cycle.once))
    assert counts[1] < counts[0] * 1.2
