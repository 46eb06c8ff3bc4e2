"""A large group costs work in proportion to its pods, and one that is refused waits longer and longer."""

import pytest

from apportion.cluster.client import Client
from apportion.cluster.debouncer import Debouncer
from apportion.cluster.kinds import NODES
from apportion.scheduling.deciding.grouppauses import LARGE
from apportion.settings import CycleSettings
from tests.clock import Ticking
from tests.observedcluster import ObservedCluster, request
from tests.scheduling.deciding import Deciding
from tests.scheduling.decisions import decisions
from tests.scheduling.podgroups import gang, member
from tests.scheduling.queued import fleet
from tests.scheduling.sliced import between, until
from tests.steps import steps


async def test_a_group_that_fits_looks_at_each_node_once_and_then_at_those_it_uses(
    unanswered: Client,
) -> None:
    """Work that grows with the square of its pods would stop the operator."""
    deciding = Deciding(gang(32, 40), unanswered)

    assert deciding.decide_groups() == 32

    assert deciding.looks <= 40 + 2 * 32


async def test_a_group_that_does_not_fit_is_tried_in_one_order_if_its_pods_are_equal(
    unanswered: Client,
) -> None:
    """Enough devices are free, but on too few nodes."""
    deciding = Deciding(gang(32, 31), unanswered)

    assert deciding.decide_groups() == 0

    assert deciding.looks <= 31 + 2 * 32


async def test_a_group_for_which_too_few_devices_are_free_says_how_many(unanswered: Client) -> None:
    """And its members are not tried."""
    world = gang(8, 5)
    before = decisions("short")

    world.cycle(unanswered).once()

    assert decisions("short") - before == 1
    assert ("g-p0", "ClaimsNotAllocated") in world.warned
    assert world.places() == {}


async def test_a_large_group_that_was_refused_rests_however_often_room_comes_and_goes(
    unanswered: Client,
) -> None:
    """The pause doubles with each refusal; a small group is asked again at once."""
    large, small = gang(LARGE, LARGE - 1), gang(2, 1)
    assert [await refusals(world, unanswered) for world in (large, small)] == [3, 9]


async def refusals(world: ObservedCluster, client: Client) -> float:
    """Let a node change every half second for four seconds; return how often the group was refused."""
    cycle, before = world.cycle(client), decisions("none", "short")
    for number in range(9):
        node = {"metadata": {"name": "n0", "labels": {"number": str(number)}}}
        node["status"] = {"allocatable": {"cpu": "64", "memory": "32Gi", "pods": "10"}}
        world.see(NODES, node)
        cycle.once()
        world.clock.now += 0.5
    return decisions("none", "short") - before


@pytest.mark.slow
async def test_a_large_group_that_rests_costs_a_pass_nothing(unanswered: Client) -> None:
    """Whatever its size."""
    costs: list[int] = []
    for pods in (LARGE, 8 * LARGE):
        cycle = (world := gang(pods, pods - 1)).cycle(unanswered)
        cycle.once()
        world.clock.now += 0.5
        cycle.once()
        world.claim("new", request("gpu"))
        costs.append(steps(cycle.once))
    assert costs[1] < 1.2 * costs[0]


@pytest.mark.slow
async def test_a_large_group_that_becomes_whole_is_served_though_nothing_else_happens(silent: Client) -> None:
    """It was incomplete, so it is skipped for a moment: the cycle wakes by itself when that is over."""
    world = fleet({f"n{number}": ("common", 4) for number in range(LARGE)})
    world.clock = Ticking()
    names = [f"c{number}" for number in range(LARGE + 1)]
    for name in names[:-1]:
        world.claim(name, request("gpu"))
        member(world, name, name, least=str(len(names)))
    debouncer = Debouncer(quiet=0, longest=0, clock=world.clock)
    cycle = world.cycle(silent, CycleSettings(idle=3600), debouncer)
    cycle.once()
    world.claim(names[-1], request("gpu"))
    member(world, names[-1], names[-1], least=str(len(names)))
    cycle.once()
    assert world.places() == {}

    await between(cycle, until(lambda: len(world.places()) == len(names), lambda: None))
