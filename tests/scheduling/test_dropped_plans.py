"""A plan for the last of the queue is dropped when a node of it has no room any more: who was planned there is searched for in steps, as without a plan."""

import random

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS
from tests.observedcluster import GPU, ObservedCluster, request
from tests.scheduling.longeststep import served_before
from tests.steps import Steps

pytestmark = pytest.mark.slow

ATTRIBUTES = ("p", "q", "t")
MOST_CALLS = 200_000
"""Functions that are called between two yields: some hundredths of a second."""
COUNT = 24


def easy_and_hard() -> ObservedCluster:
    """Return a node on which devices that differ in three attributes are found at once, and one where that takes for ever."""
    world = ObservedCluster()
    world.device_class("gpu")
    rng = random.Random(1)  # noqa: S311 - a test that can be repeated
    for name in ("easy", "hard"):
        world.node(name, cpu="64", **{"kubernetes.io/hostname": name})
        values = [
            {key: {"int": index if name == "easy" else rng.randrange(COUNT)} for key in ATTRIBUTES}
            for index in range(2 * COUNT if name == "easy" else 112)
        ]
        rows = [{"name": f"d{index}", "attributes": each} for index, each in enumerate(values)]
        world.slice(name, f"{name}-devices", {"devices": rows}, 1)
    return world


async def test_who_loses_the_node_of_the_plan_is_searched_for_in_steps(unanswered: Client) -> None:
    """The other node has changed since it was searched: what one tenant asks for held everybody for a second."""
    world = easy_and_hard()
    cycle = served_before(world, unanswered)
    world.claim("first", request("gpu"))
    world.pod("first", "first", gates=(GATE,), spec={"nodeSelector": {"kubernetes.io/hostname": "hard"}})
    rows = [request("gpu", name=f"r{row}") for row in range(COUNT)]
    constraints = [{"distinctAttribute": f"{GPU}/{name}"} for name in ATTRIBUTES]
    devices = {"requests": rows, "constraints": constraints}
    world.see(CLAIMS, {"metadata": {"name": "second", "namespace": "team"}, "spec": {"devices": devices}})
    world.pod("second", "second", gates=(GATE,))
    steps, longest, planned, more = cycle._pass(longest=1e9, evaluates=False), 0, False, True
    while more:
        with Steps(None) as counted:
            more = next(steps, steps) is not steps
        longest = max(longest, counted.count)
        if not planned and "first" in world.places():
            [waiting] = [each for each in world.snapshot.claims.values() if each.name == "second"]
            planned = cycle.decider.planner.knows(waiting.uid)
            world.clock.now += 1
            large = {"name": "main", "resources": {"requests": {"cpu": "63500m"}}}
            world.pod("large", spec={"nodeName": "easy", "containers": [large]})
    assert planned
    assert longest < MOST_CALLS
    assert world.places().keys() == {"before", "first"}
