"""A selector that reads what differs from node to node has no result that two nodes share: it is evaluated beside the passes, within the budget."""

import pytest

from apportion.cel.program import Program
from apportion.cluster.client import Client
from apportion.settings import CycleSettings
from tests.observedcluster import GPU, ObservedCluster, request
from tests.scheduling.longeststep import served_before
from tests.steps import Steps

UUID = f'device.attributes["{GPU}"].uuid'
FAILS = f"int({UUID}) > 0"
NODES = 60


def cluster(nodes: int = NODES) -> ObservedCluster:
    """Return nodes of four devices, each with a UUID."""
    world = ObservedCluster()
    world.device_class("gpu")
    for number in range(nodes):
        world.node(f"n{number}", cpu="64")
        rows = [
            {"name": f"gpu-{index}", "attributes": {"uuid": {"string": f"GPU-{number}-{index}"}}}
            for index in range(4)
        ]
        world.slice(f"n{number}", f"n{number}-devices", {"devices": rows}, 1)
    return world


async def test_no_step_of_a_pass_evaluates_it_on_all_devices(unanswered: Client) -> None:
    """One that failed was evaluated on all of them in one decision: seconds on a large cluster, for each new text."""
    world = cluster()
    cycle = served_before(world, unanswered)
    world.wait_for("fails", request("gpu", expression=FAILS))
    world.wait_for("other", request("gpu"))
    with Steps(only=Program.match_precisely) as evaluated:
        for _ in cycle._pass(longest=1e9, evaluates=False):
            pass
    assert evaluated.count == 0
    assert "other" in world.places()
    cycle.once()
    assert "fails" in {name for name, _ in world.warned}
    with Steps(only=Program.match_precisely) as evaluated:
        cycle.once()
    assert evaluated.count == 0


async def test_one_that_matches_is_served(unanswered: Client) -> None:
    """In the pass that evaluates it."""
    world = cluster()
    cycle = served_before(world, unanswered)
    world.wait_for("one", request("gpu", expression=f'{UUID} == "GPU-50-2"'))
    cycle.once()
    assert world.places()["one"] == "n50"


@pytest.mark.parametrize("budget", [20_000, 1_000_000])
async def test_one_that_fails_on_too_many_devices_costs_too_much(unanswered: Client, budget: int) -> None:
    """Its claim is not asked about again for some minutes, whatever slices change; with a larger budget its error is told."""
    world = cluster()
    cycle = world.cycle(unanswered, CycleSettings(selectors=budget))
    world.wait_for("fails", request("gpu", expression=FAILS))
    cycle.once()
    assert (("fails", "CostlySelector") in world.warned) == (budget == 20_000)
    assert "fails" in {name for name, _ in world.warned}


async def test_on_few_nodes_it_is_decided_at_once(unanswered: Client) -> None:
    """It takes less than a pass more would."""
    world = cluster(8)
    cycle = served_before(world, unanswered)
    world.wait_for("one", request("gpu", expression=f'{UUID} == "GPU-5-2"'))
    for _ in cycle._pass(longest=1e9, evaluates=False):
        pass
    assert world.places()["one"] == "n5"
