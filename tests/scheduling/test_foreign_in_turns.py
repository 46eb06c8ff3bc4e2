"""A claim that kube-scheduler allocates may need a search of many nodes; others are decided meanwhile, and its pod later."""

import random

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, SLICES
from tests.clock import Ticking
from tests.observedcluster import GPU, ObservedCluster, request
from tests.scheduling.test_search_turns import passes

pytestmark = pytest.mark.slow

NODES, NIC = 24, "nic.example.com"


def nics() -> ObservedCluster:
    """Return nodes with a device of ours, and with NICs of another driver that differ from node to node, by a clock that ticks."""
    world = ObservedCluster(clock=Ticking())
    world.device_class("gpu", f'device.driver == "{GPU}"')
    world.device_class("theirs", f'device.driver == "{NIC}"', unmanaged="yes")
    rng = random.Random(2)  # noqa: S311 - a test that can be repeated
    for number in range(NODES):
        name = f"n{number}"
        world.node(name, cpu="64")
        world.slice(name, f"{name}-devices", {"devices": [{"name": "d0"}]}, 1)
        rows = [{"name": f"nic{row}", "attributes": {"p": {"int": rng.randrange(99)}}} for row in range(6)]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": NIC, "nodeName": name, "pool": pool, "devices": rows}
        world.see(SLICES, {"metadata": {"name": f"nic-{name}"}, "spec": spec})
    return world


@pytest.mark.parametrize("small", [1, 3], ids=["two that wait", "four that wait"])
async def test_others_do_not_wait_for_all_nodes_to_be_searched(unanswered: Client, small: int) -> None:
    """On a thousand nodes twelve seconds in one pass, for each new claim of a tenant; a pass searches for a part of its time for one namespace."""
    world = nics()
    devices = {
        "requests": [request("theirs", name=f"r{number}") for number in range(3)],
        "constraints": [{"distinctAttribute": f"{NIC}/p"}],
    }
    world.see(CLAIMS, {"metadata": {"name": "nics", "namespace": "team"}, "spec": {"devices": devices}})
    world.claim("ours", request("gpu"))
    world.pod("p", "ours", "nics", gates=(GATE,), spec={"priority": 5})
    for number in range(small):
        world.claim(f"small-{number}", request("gpu"), namespace="others")
        world.pod(f"small-{number}", f"small-{number}", gates=(GATE,), namespace="others")
    steps = passes(world.cycle(unanswered))
    next(steps)
    assert "small-0" in world.places()
    assert "ours" not in world.places()
    took = 1
    while len(world.places()) <= small:
        next(steps)
        took += 1
        assert took < NODES
