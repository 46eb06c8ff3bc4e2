"""Devices that a ladder draws together: nodes are searched one at a time, and others run in between."""

from collections.abc import Callable
from itertools import count, islice

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import NODES, SLICES
from apportion.scheduling.walk.lastdemands import LARGE
from testbed.publishedslices import published_slices
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.longeststep import longest_step, served_before
from tests.scheduling.podgroups import member

pytestmark = pytest.mark.slow

PARTITION = 'device.attributes["gpu.apportion.dev"].?profile.orValue("") == "1g.10gb"'


def node(world: ObservedCluster, name: str, **spec: object) -> None:
    """Show a node."""
    resources = {"cpu": "64", "memory": "64Gi", "pods": "110"}
    world.see(NODES, {"metadata": {"name": name}, "spec": spec, "status": {"allocatable": resources}})


def fleet_of(nodes: int) -> ObservedCluster:
    """Return nodes with two H100 each, whose MIG placements are published."""
    world = ObservedCluster()
    world.device_class("gpu", 'device.attributes["gpu.apportion.dev"].type == "gpu"')
    world.device_class("mig", PARTITION)
    for number in range(nodes):
        node(world, f"n{number}")
        cards: Json = {"cards": [{"model": "H100-80GB", "count": 2}]}
        for each in published_slices(cards, f"n{number}", f"uid-{number}", guard=False):
            world.see(SLICES, each)
    return world


@pytest.mark.parametrize("pods", [1, 2], ids=["one pod", "planned together"])
@pytest.mark.parametrize("nodes", [(4, 12), (20, 40)], ids=["few nodes", "more nodes"])
async def test_no_step_of_a_pass_grows_with_the_nodes_that_are_searched(
    unanswered: Client, nodes: tuple[int, int], pods: int
) -> None:
    """A pod with eight partitions of any card."""
    longest = []
    for number in nodes:
        world = fleet_of(number)
        cycle = served_before(world, unanswered)
        for pod in range(pods):
            names = [f"c{pod}-{claim}" for claim in range(8)]
            for name in names:
                world.claim(name, request("mig"))
            world.pod(f"p{pod}", *names, gates=(GATE,))
        longest.append(longest_step(cycle))
        assert len(world.places()) == 1 + 8 * pods
    assert longest[1] < 1.5 * longest[0]


async def test_no_step_of_a_pass_grows_with_the_pods_that_are_placed_together(unanswered: Client) -> None:
    """Each with four partitions of any card."""
    longest = []
    for pods in (2, 8):
        world = fleet_of(6)
        cycle = served_before(world, unanswered)
        for pod in range(pods):
            world.claim(f"c{pod}", request("mig", count=4))
            world.pod(f"p{pod}", f"c{pod}", gates=(GATE,))
        longest.append(longest_step(cycle))
        assert len(world.places()) == 1 + pods
    assert longest[1] < 1.5 * longest[0]


async def test_no_step_of_a_group_grows_with_the_nodes_that_are_searched(unanswered: Client) -> None:
    """Two pods, each with eight partitions of any card."""
    longest = []
    for nodes in (6, 20):
        world = fleet_of(nodes)
        cycle = served_before(world, unanswered)
        for pod in range(2):
            world.claim(f"c{pod}", request("mig", count=8))
            member(world, f"p{pod}", f"c{pod}", least="2")
        longest.append(longest_step(cycle))
        assert len(world.places()) == 3
    assert longest[1] < 1.5 * longest[0]


def pairs(world: ObservedCluster, *pods: int) -> None:
    """Each pod asks for two cards."""
    for pod in pods:
        world.claim(f"c{pod}", request("gpu", count=2))
        world.pod(f"p{pod}", f"c{pod}", gates=(GATE,))


def changed_meanwhile(
    client: Client,
    waits: Callable[[ObservedCluster], None],
    change: Callable[[ObservedCluster], None] | None,
    *,
    nodes: int = 4,
) -> list[dict[str, str | None]]:
    """Return who has devices where in the end if something changes at the first step of a pass, at the second one, and so on.

    `change` None: nothing changes; once is enough then.
    """
    found = []
    for step in count():
        world = fleet_of(nodes)
        cycle = served_before(world, client)
        waits(world)
        steps = cycle._pass(longest=1e9, evaluates=False)
        for _ in islice(steps, step):
            pass
        if change is not None and len(world.places()) == 1:
            world.clock.now += 1  # what was read before is read anew
            change(world)
        elif step:
            return found
        for _ in steps:
            pass
        places = world.places()
        del places["before"]
        found.append(places)
    raise AssertionError(found)


@pytest.mark.parametrize("pods", [(0,), (0, 1)], ids=["one pod", "planned together"])
async def test_a_node_that_is_cordoned_while_nodes_are_searched_takes_no_pod(
    unanswered: Client, pods: tuple[int, ...]
) -> None:
    """The room of nodes is read anew, and the allocator asked about the others."""
    [undisturbed] = changed_meanwhile(unanswered, lambda world: pairs(world, *pods), None)
    cordoned = undisturbed["c0"]
    assert cordoned is not None
    found = changed_meanwhile(
        unanswered, lambda world: pairs(world, *pods), lambda world: node(world, cordoned, unschedulable=True)
    )
    assert len(found) > 4
    for places in found:
        assert places.keys() == undisturbed.keys()
        assert cordoned not in places.values()


@pytest.mark.parametrize("pods", [(0,), (0, 1)], ids=["one pod", "planned together"])
async def test_a_pod_that_changes_while_nodes_are_searched_is_left_to_the_next_pass(
    unanswered: Client, pods: tuple[int, ...]
) -> None:
    """It may start no more; there are devices for one pod, which another one gets."""

    def gated(world: ObservedCluster) -> None:
        world.pod("p0", "c0", gates=(GATE, "another"))

    [undisturbed] = changed_meanwhile(unanswered, lambda world: pairs(world, *pods), None, nodes=2)
    assert undisturbed.keys() == {"c0"}
    found = changed_meanwhile(unanswered, lambda world: pairs(world, *pods), gated, nodes=2)
    assert len(found) > 4
    assert all(places.keys() == {f"c{pod}" for pod in pods[1:]} for places in found)


async def test_a_card_that_is_taken_while_nodes_are_searched_for_a_late_pod_is_planned_for_nobody(
    unanswered: Client,
) -> None:
    """Pods that share a claim are too many to be planned together with others: they come first, and no node can serve them."""

    def waits(world: ObservedCluster) -> None:
        world.claim("all", request("mig", count=15))
        for number in range(LARGE + 1):
            world.pod(f"a{number}", "all", gates=(GATE,))
        pairs(world, 1, 2)

    [undisturbed] = changed_meanwhile(unanswered, waits, None)
    node = undisturbed["c1"]
    assert node is not None
    taken = [f"gpu-{number}" for number in range(2)]
    found = changed_meanwhile(
        unanswered, waits, lambda world: world.allocate(world.claim("other"), node, *taken)
    )
    assert len(found) > 4
    assert all(node not in (places["c1"], places["c2"]) for places in found)
