"""Nodes that are short of cpu or memory are compared by the devices that a claim would take there, for which they are searched in steps."""

import pytest

from apportion.allocator.nodeoutcomes import NodeOutcomes
from apportion.allocator.nodesteps import MANY_STATES
from apportion.allocator.search.solve import solve
from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.scheduling.cycle import Cycle
from tests.observedcluster import GPU, Json, ObservedCluster, request
from tests.scheduling.longeststep import longest_step, served_before
from tests.scheduling.podgroups import member
from tests.scheduling.queued import MODEL, fleet
from tests.steps import Steps

NODES = 60
"""More than have a class each: UUIDs are of each node."""
UUID = f'device.attributes["{GPU}"].uuid'


def nodes(models: int) -> ObservedCluster:
    """Return nodes of two devices with UUIDs and so many models, and with cpu for one and a half of the pods."""
    world = fleet({})
    for number in range(NODES):
        name = f"n{number}"
        world.node(name, cpu="6")
        devices: list[Json] = [
            {
                "name": f"gpu-{card}",
                "attributes": {
                    "model": {"string": f"m{number % models}"},
                    "uuid": {"string": f"{name}-{card}"},
                },
            }
            for card in range(2)
        ]
        world.slice(name, f"{name}-devices", {"devices": devices}, 1)
    return world


def wait(world: ObservedCluster, name: str, *, group: bool, attribute: str = UUID) -> None:
    """Let a pod wait for a device that has not some UUID, or the like."""
    spec = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "4"}}}]}
    world.claim(name, request("gpu", expression=f'{attribute} != "{name}"'))
    if group:
        member(world, name, name, least="2")["spec"] |= spec
    else:
        world.pod(name, name, gates=(GATE,), spec=spec)


def evaluate(cycle: Cycle) -> None:
    """Evaluate the selectors of those that wait, as the task beside the passes does."""
    longest_step(cycle)
    for work in cycle._preparing.steps():
        if work is not None:
            work()


@pytest.mark.parametrize("group", [False, True])
async def test_no_step_searches_all_of_them(unanswered: Client, *, group: bool) -> None:
    """All were, 0.15 s for 2,000 nodes, for each pod or member of a group with a selector of its own that reads UUIDs."""
    world = nodes(models=40)
    cycle = served_before(world, unanswered)
    for name in ("c1", "c2"):
        wait(world, name, group=group)
    evaluate(cycle)
    assert 0 < longest_step(cycle, only=solve) <= 2
    assert {"c1", "c2"} <= world.places().keys()


async def test_those_that_are_equal_are_searched_once(unanswered: Client) -> None:
    """The selector matches the same devices on all of them."""
    world = nodes(models=1)
    cycle = served_before(world, unanswered)
    wait(world, "c1", group=False)
    evaluate(cycle)
    with Steps(only=solve) as counted:
        cycle.once()
    assert "c1" in world.places()
    assert counted.count < NODES / 2


def unlike(*cpu: str) -> ObservedCluster:
    """Return nodes with so much cpu, of which each has other devices in use."""
    world = fleet({f"n{number}": ("h100", 9) for number in range(len(cpu))})
    for number, amount in enumerate(cpu):
        held = [f"gpu-{card}" for card in range(9) if number >> card & 1]
        if held:
            world.allocate(world.claim(f"held-{number}"), f"n{number}", *held)
        world.node(f"n{number}", cpu=amount)
    return world


async def test_no_step_searches_all_states_of_them_for_a_selector_that_is_new(unanswered: Client) -> None:
    """Of 2,700 nodes of which each holds other devices all were, 0.2 s for each selector that nobody had asked with before."""
    world = unlike(*["6"] * 300)
    cycle = served_before(world, unanswered)
    wait(world, "c1", group=False, attribute=MODEL)
    assert 0 < longest_step(cycle, only=NodeOutcomes.solve) <= MANY_STATES + 8
    assert "c1" in world.places()


async def test_those_without_room_for_the_pod_are_not_searched(unanswered: Client) -> None:
    """Nobody compares them: most nodes of a busy cluster may be so."""
    world = unlike(*["6"] * 40, *["2"] * 260)
    cycle = served_before(world, unanswered)
    wait(world, "c1", group=False, attribute=MODEL)
    with Steps(only=NodeOutcomes.solve) as counted:
        cycle.once()
    assert "c1" in world.places()
    assert counted.count < 60
