"""Nodes where others have to go, and nodes whose devices are reserved, are searched one at a time, too, and others run in between."""

from collections.abc import Callable
from itertools import count, islice

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import PODS
from apportion.scheduling.cycle import Cycle
from tests.observedcluster import ObservedCluster, request
from tests.scheduling.longeststep import longest_step
from tests.scheduling.reserving import on
from tests.scheduling.test_closest_in_steps import node
from tests.scheduling.test_search_turns import unlike

pytestmark = pytest.mark.slow


def waits(world: ObservedCluster, name: str, count: int, *, priority: int = 0, only: str = "") -> None:
    """Let a pod wait for so many partitions of any cards of a node."""
    world.claim(name, request("mig", count=count), creationTimestamp=world.time())
    affinity = {"affinity": on(only)} if only else {}
    world.pod(name, name, gates=(GATE,), spec={"priority": priority, **affinity})


def full(nodes: int) -> ObservedCluster:
    """Return unlike nodes, the first of which has no partition left."""
    world = unlike(nodes)
    for place in range(7):
        for card in range(2):
            used = world.claim(f"full-{card}-{place}", request("mig"))
            world.allocate(used, "n0", f"gpu-{card}-mig-1g10gb-19-{place}")
    return world


def full_of_low_priority(client: Client, nodes: int) -> tuple[ObservedCluster, Cycle]:
    """Return unlike nodes of which pods of a low priority take all cpu, but for one that has no partition left."""
    world = full(nodes)
    for number in range(1, nodes):
        pod = world.pod(f"low-{number}", spec={"priority": -1, "nodeName": f"n{number}"})
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "64"
        world.see(PODS, pod | {"status": {"phase": "Running"}})
    cycle = world.cycle(client)
    waits(world, "before", 1, priority=1)
    cycle.once()
    return world, cycle


def reserved(client: Client, nodes: int) -> tuple[ObservedCluster, Cycle]:
    """Return unlike nodes, all partitions of which are used, or reserved for a pod that needs those of its whole node."""
    world = full(nodes)
    world.policy(classes=["mig"], queue={"reserveAfter": "0s", "mostReserved": 8})
    cycle = world.cycle(client)
    for number in range(1, nodes):
        waits(world, f"head-{number}", 14, only=f"n{number}")
    while len(cycle.reserved) < nodes - 1:
        cycle.once()
        world.clock.now += 1.0
    return world, cycle


@pytest.mark.parametrize(
    ("made", "nodes"), [(full_of_low_priority, (16, 64)), (reserved, (3, 9))], ids=["preempting", "reserved"]
)
async def test_no_step_grows_with_the_nodes_that_are_searched(
    unanswered: Client, made: Callable[[Client, int], tuple[ObservedCluster, Cycle]], nodes: tuple[int, int]
) -> None:
    """A pod of higher priority with four partitions of any cards."""
    longest = []
    for number in nodes:
        world, cycle = made(unanswered, number)
        waits(world, "c", 4, priority=1)
        longest.append(longest_step(cycle))
        assert world.places()["c"] not in (None, "n0")
    assert longest[1] < 1.5 * longest[0], longest


@pytest.mark.parametrize("made", [full_of_low_priority, reserved], ids=["preempting", "reserved"])
async def test_devices_are_found_though_nodes_change_all_the_time(
    unanswered: Client, made: Callable[[Client, int], tuple[ObservedCluster, Cycle]]
) -> None:
    """Each step of a pass meets a change of some node; the devices are the same as if nothing had changed."""
    undisturbed, cycle = made(unanswered, 9)
    waits(undisturbed, "c", 4, priority=1)
    cycle.once()
    world, cycle = made(unanswered, 9)
    waits(world, "c", 4, priority=1)
    steps = cycle._pass(longest=1e9, evaluates=False)
    for _ in steps:
        node(world, "n0")
    assert world.places()["c"] == undisturbed.places()["c"] is not None


async def test_what_is_reserved_is_held_between_two_steps(unanswered: Client) -> None:
    """Others that are decided, or asked about, meanwhile see it."""
    world, cycle = reserved(unanswered, 5)
    state = world.snapshot.state
    held = {each.key: state.held()[each.key] for each in cycle.reserved}
    waits(world, "c", 4, priority=1)
    steps = cycle._pass(longest=1e9, evaluates=False)
    while "c" not in world.places():
        assert {key: state.held()[key] for key in held} == held
        next(steps)
    for _ in steps:
        pass


async def test_a_pod_that_goes_while_reserved_nodes_are_searched_gets_nothing(unanswered: Client) -> None:
    """Whenever that is."""
    for step in count():
        world, cycle = reserved(unanswered, 3)
        waits(world, "c", 4, priority=1)
        steps = cycle._pass(longest=1e9, evaluates=False)
        for _ in islice(steps, step):
            pass
        if "c" in world.places():
            assert step > 4
            return
        world.gone(PODS, world.seen[PODS, "team", "c"])
        for _ in steps:
            pass
        assert "c" not in world.places()
