"""Devices that come free go to higher priority first, though no walk gets to the end of the queue."""

from collections.abc import Iterator

import pytest

from apportion.allocator.preparation import Work
from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.debouncer import Debouncer
from apportion.scheduling.cycle import LONGEST, Cycle
from tests.clock import Clock, Ticking
from tests.observedcluster import ObservedCluster, request
from tests.scheduling.evicting import ends, holds, joins, waits
from tests.scheduling.queued import fleet

MANY = 150


def loaded(gpus: int = 1) -> ObservedCluster:
    """Return a full node, pods of low priority that no walk looks at all of, and a clock that ticks."""
    world = fleet({"n1": ("h100", gpus)})
    # Nothing is reserved for who waits for long: the order in which they are asked is what decides.
    world.policy("p", queue={"mostReserved": 0})
    world.clock = Ticking(world.clock.now)
    holds(world, "holder", *range(gpus))
    for number in range(MANY):
        waiting(world, f"low-{number}", number, priority=-5)
    return world


def waiting(world: ObservedCluster, name: str, millis: int, priority: int) -> None:
    """Let a pod wait that is like no other one."""
    resources = {"requests": {"cpu": f"{millis + 1}m"}}
    waits(world, name, 1, priority, containers=[{"name": "main", "resources": resources}])


def exhaust(steps: Iterator[Work | None]) -> None:
    """Make the rest of a pass."""
    for work in steps:
        if work is not None:
            work()


def once(cycle: Cycle) -> bool:
    """Make one pass as the operator does, of which nothing is written yet; says whether it ended early."""
    exhaust(cycle._pass(longest=LONGEST, evaluates=False))
    return cycle._queue.ended_early


@pytest.mark.parametrize("passes", [1, 2, 3])
async def test_who_was_refused_a_moment_before_has_the_device_before_those_of_lower_priority(
    unanswered: Client, passes: int
) -> None:
    """Walks that ended early had looked at it, and had not got to the others yet."""
    world = loaded()
    waits(world, "high", 1, priority=5)
    cycle = world.cycle(unanswered)
    for _ in range(passes):
        assert once(cycle)
    ends(world, "holder")
    once(cycle)
    assert world.places().keys() == {"high"}


async def test_so_has_a_group(unanswered: Client) -> None:
    """Its pods are decided together, in as many turns as that takes."""
    world = loaded(gpus=2)
    joins(world, "a", "b")
    cycle = world.cycle(unanswered)
    assert once(cycle)
    ends(world, "holder")
    for _ in range(5):
        once(cycle)
    assert world.places().keys() == {"a", "b"}


async def test_who_was_refused_in_the_same_walk_has_the_device_before_those_of_lower_priority(
    unanswered: Client,
) -> None:
    """The device comes free between two decisions."""
    world = loaded()
    world.clock = Clock(world.clock.now)
    waits(world, "high", 1, priority=5)
    steps = world.cycle(unanswered)._pass(longest=LONGEST, evaluates=False)
    while "low-0" not in dict(world.warned):
        next(steps)
    assert "high" in dict(world.warned)
    ends(world, "holder")
    exhaust(steps)
    assert world.places().keys() == {"high"}


async def test_those_of_higher_priority_do_not_keep_walks_from_the_others(unanswered: Client) -> None:
    """Something that may let them in changes before each walk, and each of them is like no other one."""
    world = loaded()
    world.clock = Ticking(world.clock.now, step=0.0005)
    world.device_class("gpu", 'device.attributes["gpu.apportion.dev"].model == "h100"')
    world.device_class("other", 'device.attributes["gpu.apportion.dev"].model == "spare"')
    world.policy("other", classes=("other",), queue={"mostReserved": 0})
    spare = {"devices": [{"name": "spare-0", "attributes": {"model": {"string": "spare"}}}]}
    world.slice("n1", "n1-spare", spare, 1, pool="spare")
    for number in range(MANY):
        waiting(world, f"high-{number}", number, priority=5)
    world.claim("last", request("other"))
    world.pod("last", "last", gates=(GATE,), spec={"priority": -9})
    debouncer = Debouncer(quiet=0, longest=0, clock=world.clock)
    debouncer.wake()
    cycle = world.cycle(unanswered, debouncer=debouncer)
    cycle._deciding = True
    for number in range(100):
        world.node("n1", cpu=str(64 + number % 2))
        once(cycle)
        if "last" in world.places():
            return
    pytest.fail("no walk got to the last one")
