"""A demand whose selectors read what each node has of its own gets reserved devices, too: what is found out about a node does not outlast what is reserved there."""

from itertools import islice

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.queued import MODEL, fleet
from tests.scheduling.reserving import on

pytestmark = pytest.mark.slow

NODES = 50


def full() -> ObservedCluster:
    """Return nodes of which each has a model of its own; one device of `n0` is free."""
    world = fleet({f"n{number}": (f"model-{number}", 2) for number in range(NODES)})
    for number in range(NODES):
        devices = ("gpu-0", "gpu-1")[: 2 if number else 1]
        world.allocate(world.claim(f"used-{number}"), f"n{number}", *devices)
    return world


def waits(world: ObservedCluster, name: str, wanted: Json, *, priority: int = 0, only: str = "") -> None:
    """Let a pod wait."""
    world.claim(name, wanted, creationTimestamp=world.time())
    affinity = {"affinity": on(only)} if only else {}
    world.pod(name, name, gates=(GATE,), spec={"priority": priority, **affinity})


async def test_a_search_by_node_of_what_is_reserved_ends(unanswered: Client) -> None:
    """Each step put the reserved devices back, and what it had found was void: the demand waited for ever, and its namespace with it."""
    world = full()
    world.policy(classes=["gpu"], queue={"reserveAfter": "0s", "mostReserved": 8})
    cycle = world.cycle(unanswered)
    waits(world, "head", request("gpu", count=2), only="n0")
    while not [*cycle.reserved]:
        cycle.once()
        world.clock.now += 1.0
    waits(world, "c", request("gpu", expression=f'{MODEL} != "model-1"'), priority=1)
    for _ in range(3):
        for _ in islice(cycle._pass(longest=1e9, evaluates=True), 2000):
            pass
        world.clock.now += 1.0
    assert world.places()["c"] == "n0"
