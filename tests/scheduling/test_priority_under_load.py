"""Devices that come free go by priority and age, though no walk gets to the end of the queue."""

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.scheduling.cycle import LONGEST, Cycle
from tests.clock import Clock, Ticking
from tests.observedcluster import ObservedCluster, request
from tests.quota.tenants import namespace, quota
from tests.scheduling.busywalks import exhaust, once, pressed, refuse, waiting
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


def busy(client: Client, order: str, *, owner: str = "team") -> tuple[ObservedCluster, Cycle]:
    """Return a full node with two GPUs, pods that ask in vain for others and that no walk looks at all of, and one that was refused a GPU."""
    world = fleet({"n1": ("h100", 2)})
    world.policy("p", queue={"mostReserved": 0, "order": order})
    world.device_class("none", "false")
    world.clock = Ticking(world.clock.now, step=0.00005)
    holds(world, "first", 0)
    holds(world, "second", 1, team=owner)
    for number in range(MANY):
        name, resources = f"other-{number}", {"requests": {"cpu": f"{number + 1}m"}}
        world.claim(name, request("none"))
        world.pod(name, name, gates=(GATE,), spec={"containers": [{"name": "main", "resources": resources}]})
    waits(world, "a", 1)
    cycle = pressed(world, client)
    refuse(world, cycle, "a")
    return world, cycle


@pytest.mark.parametrize("millis", [1000, 7], ids=["alike", "other"])
async def test_an_older_one_goes_before_a_newcomer_of_its_namespace(unanswered: Client, millis: int) -> None:
    """Whether or not they ask for the same."""
    world, cycle = busy(unanswered, "Priority")
    waiting(world, "b", millis - 1, 0)
    ends(world, "first")
    once(cycle)
    assert world.places().keys() == {"second", "a"}


async def test_so_does_one_that_waits_behind_another_one_that_is_alike(unanswered: Client) -> None:
    """Two devices come free, and the newcomer has none of them."""
    world, cycle = busy(unanswered, "Priority")
    waits(world, "b", 1)
    refuse(world, cycle, "b")
    waits(world, "c", 1)
    ends(world, "first", "second")
    once(cycle)
    assert world.places().keys() == {"a", "b"}


@pytest.mark.parametrize(("order", "priority"), [("Priority", 0), ("FIFO", 9)])
async def test_an_older_one_goes_before_a_newcomer_of_another_namespace(
    unanswered: Client, order: str, priority: int
) -> None:
    """Under a FIFO policy a higher priority counts for nothing."""
    world, cycle = busy(unanswered, order)
    waits(world, "zz-late", 1, priority, team="zz-late")
    ends(world, "first")
    once(cycle)
    assert world.places().keys() == {"second", "a"}


@pytest.mark.parametrize(("owner", "served"), [("zz-late", "a"), ("team", "zz-late")])
async def test_in_a_cohort_the_namespace_goes_first_that_has_less(
    unanswered: Client, owner: str, served: str
) -> None:
    """Whether or not the other one has waited for longer."""
    world, cycle = busy(unanswered, "Priority", owner=owner)
    for team in ("team", "zz-late"):
        namespace(world, team, team=team)
        quota(world, team, cohort="x")
    assert once(cycle)
    waits(world, "zz-late", 1, team="zz-late")
    ends(world, "first")
    passes = 0
    while len(world.places()) < 2 and (passes := passes + 1) < 20:
        once(cycle)
    assert world.places().keys() == {"second", served}


async def test_those_of_higher_priority_take_half_of_a_walk_at_most(unanswered: Client) -> None:
    """Something that may let them in changes before each walk, each of them is like no other one, and others could be served."""
    world = fleet({"n1": ("h100", 1), **{f"s{number}": ("spare", 6) for number in range(10)}})
    for name, model in (("gpu", "h100"), ("other", "spare")):
        world.device_class(name, f'device.attributes["gpu.apportion.dev"].model == "{model}"')
    world.policy("p", classes=("gpu", "other"), queue={"mostReserved": 0})
    world.clock = clock = Ticking(world.clock.now, step=0.0005)
    holds(world, "holder", 0)
    for number in range(MANY):
        waiting(world, f"high-{number}", number, priority=5)
    for number in range(60):
        world.claim(f"low-{number}", request("other"))
        world.pod(f"low-{number}", f"low-{number}", gates=(GATE,))
    cycle = pressed(world, unanswered)
    refuse(world, cycle, f"high-{MANY - 1}")
    began, passes = clock.now, 0
    while len(world.places()) <= 60 and passes < 100:
        world.node("n1", cpu=str(64 + passes % 2))
        once(cycle)
        passes += 1
    assert passes < 60
    assert clock.now - began < passes * 0.2
