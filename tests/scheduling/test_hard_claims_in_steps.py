"""A claim whose search takes exponential time: others run in between, and it is refused as what was given up."""

import random

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS
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


@pytest.mark.parametrize("pods", [1, 2], ids=["one pod", "planned together"])
async def test_no_step_of_a_pass_takes_long(unanswered: Client, pods: int) -> None:
    """Devices that differ pairwise in three attributes: a claim of one tenant held all others for seconds."""
    world = hard_world(3)
    cycle = served_before(world, unanswered)
    for pod in range(pods):
        devices = {
            "requests": [request("gpu", name=f"r{number}") for number in range(24)],
            "constraints": [{"distinctAttribute": f"{GPU}/{name}"} for name in ATTRIBUTES],
        }
        world.see(
            CLAIMS, {"metadata": {"name": f"c{pod}", "namespace": "team"}, "spec": {"devices": devices}}
        )
        world.pod(f"p{pod}", f"c{pod}", gates=(GATE,))
    assert longest_step(cycle) < MOST_CALLS
    assert world.places().keys() == {"before"}
    [text] = {text for name, reason, text in world.messages if (name, reason) == ("c0", "NotAllocated")}
    assert "gave up" in text, text
