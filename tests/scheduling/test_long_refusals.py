"""A long queue of claims that nobody can serve costs little in each pass, however often devices come and go."""

import asyncio

import pytest

from apportion.allocator.queue import MOST_TOGETHER
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS
from apportion.scheduling.candidates.candidates import Candidates
from apportion.scheduling.deciding.decider import Decider
from apportion.scheduling.deciding.refusals import MOST_RENEWED, RENEWED
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.volumes import storage_class, volume_claim, with_volume, zones
from tests.steps import Steps

FEW, MANY = 100, 400
MOST_STEPS = 4
"""Functions called for each demand that waits on: it is looked up, no more."""


def queue(waiting: int, *, volumes: bool = False) -> tuple[ObservedCluster, Json]:
    """Return a node with a free device and one in use, and claims that ask for three; and the claim in use.

    `volumes`: their pods name PersistentVolumeClaims that do not exist.
    """
    world = ObservedCluster()
    world.snapshot.volumes.complete = True
    world.device_class("gpu")
    world.node("n1", cpu="64")
    world.slice("n1", "devices", {"devices": [{"name": "gpu-0"}, {"name": "gpu-1"}]}, 1)
    holder = world.allocate(world.claim("holder"), "n1", "gpu-0")
    for number in range(waiting):
        spec = with_volume(f"data-{number}") if volumes else None
        world.wait_for(f"w{number:03d}", request("gpu", count=3), spec)
    return world, holder


async def steps_after_a_change(client: Client, waiting: int, *, volumes: bool) -> int:
    """Return how many functions a pass calls after a device came free."""
    world, holder = queue(waiting, volumes=volumes)
    cycle = world.cycle(client)
    cycle.once()
    world.gone(CLAIMS, holder)
    with Steps() as counted:
        cycle.once()
    assert not world.places()
    return counted.count


@pytest.mark.slow
@pytest.mark.parametrize("volumes", [False, True])
def test_a_refused_demand_costs_little_after_each_change(unanswered: Client, *, volumes: bool) -> None:
    """One of each shape is asked about, the others stay refused with it."""
    few, many = (
        asyncio.run(steps_after_a_change(unanswered, waiting, volumes=volumes)) for waiting in (FEW, MANY)
    )
    assert (many - few) / (MANY - FEW) < MOST_STEPS


async def test_the_event_of_a_refused_demand_says_what_is_true_now_after_a_while(unanswered: Client) -> None:
    """Not all of them in one pass."""
    world, holder = queue(2 * MOST_RENEWED)
    cycle = world.cycle(unanswered)
    cycle.once()
    world.gone(CLAIMS, holder)
    world.clock.now += RENEWED
    before = len(world.messages)
    cycle.once()
    noted = {name for name, _, _ in world.messages[before:] if name.startswith("w")}
    assert MOST_RENEWED <= len(noted) <= MOST_RENEWED + 1
    cycle.once()
    assert len({name for name, _, _ in world.messages[before:] if name.startswith("w")}) == 2 * MOST_RENEWED


def test_a_pass_after_which_nothing_is_free_asks_nobody(unanswered: Client) -> None:
    """The first of the shape was asked after the last change, and the others stay refused with it."""

    async def asked() -> int:
        world, holder = queue(FEW)
        cycle = world.cycle(unanswered)
        cycle.once()
        world.gone(CLAIMS, holder)
        cycle.once()
        with Steps(only=Decider.decide) as counted:
            cycle.once()
        return counted.count

    assert asyncio.run(asked()) == 0


@pytest.mark.parametrize("each", [12, 6])
def test_the_last_of_a_queue_are_asked_about_once_a_shape(unanswered: Client, each: int) -> None:
    """A plan for them all would ask about each, although none of any shape can be served.

    Those of a longer queue were refused one by one at first, those of a shorter one by a plan.
    """
    shapes = 8

    async def asked() -> int:
        world, holder = queue(0)
        other = world.allocate(world.claim("other"), "n1", "gpu-1")
        for number in range(shapes * each):
            world.wait_for(f"w{number:03d}", request("gpu", count=3 + number % shapes))
        cycle = world.cycle(unanswered)
        cycle.once()
        world.gone(CLAIMS, other)
        cycle.once()
        world.gone(CLAIMS, holder)
        with Steps(only=Candidates.ask) as counted:
            cycle.once()
        assert not world.places()
        return counted.count

    assert asyncio.run(asked()) == shapes


async def test_a_demand_that_is_smaller_now_is_asked_about_by_itself(unanswered: Client) -> None:
    """Others of its former shape stay refused."""
    world, holder = queue(5)
    cycle = world.cycle(unanswered)
    cycle.once()
    world.gone(CLAIMS, holder)
    world.wait_for("w002", request("gpu", count=2))
    cycle.once()
    assert world.places() == {"w002": "n1"}


@pytest.mark.parametrize("number", [4, 20, MOST_TOGETHER + 4])
async def test_a_pod_whose_volume_claim_comes_is_served_though_others_wait_for_theirs(
    number: int, unanswered: Client
) -> None:
    """It waited behind others that no node could take."""
    world = zones(n1="a")
    storage_class(world)
    for other in range(MOST_TOGETHER + 8):
        world.wait_for(f"w{other:03d}", request("gpu"), with_volume(f"data-{other}"))
    cycle = world.cycle(unanswered)
    cycle.once()
    assert world.places() == {}
    volume_claim(world, name=f"data-{number}")
    cycle.once()
    assert world.places() == {f"w{number:03d}": "n1"}
