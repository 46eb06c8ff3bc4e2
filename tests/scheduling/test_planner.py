"""What waits together is placed together, as long as nobody loses by it."""

import pytest

from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.queue import MOST_TOGETHER, allocate_queue, queue_steps
from apportion.cluster.client import Client
from apportion.dra.device import DeviceId
from apportion.scheduling.deciding.planner import planned
from tests.allocator.builders import chips, cluster
from tests.observedcluster import GPU, request
from tests.scheduling.deciding import Deciding
from tests.scheduling.queued import MODEL, fleet, parts, placed
from tests.steps import Steps


def test_a_plan_is_dropped_as_a_whole_once_a_node_has_no_room() -> None:
    """What was planned for others counted on the place that is gone."""
    state = cluster(*chips("n1", 2))
    plan = dict(zip("ab", allocate_queue(state, parts("ab")), strict=True))
    assert isinstance(planned(plan, "a", frozenset(["n1"])), Decision)
    assert planned(plan, "a", frozenset(["n2"])) is None
    assert planned(plan, "b", frozenset(["n1"])) is None


def test_who_is_refused_by_a_plan_does_not_take_what_others_were_promised() -> None:
    """The answer of the plan is its answer: at its turn the devices of those behind it are not held yet."""
    state = cluster(*chips("n1", parts=2))
    plan = dict(zip("abc", allocate_queue(state, parts("abc")), strict=True))
    answers = [planned(plan, key, frozenset(["n1"])) for key in "abc"]
    assert [type(answer) for answer in answers] == [Decision, Decision, Refusal]


@pytest.mark.parametrize(("before", "greedy"), [(0, False), (MOST_TOGETHER + 8, False), (0, True)])
async def test_the_last_that_wait_are_placed_together(
    unanswered: Client, before: int, *, greedy: bool
) -> None:
    """One by one, the small claim would break the only pair of its model, on the fuller node, and the large one wait.

    `greedy`: somebody among them asks for more than there is, and goes without.
    """
    nodes = {"pair": ("rare", 2), "eight": ("common", 8)}
    nodes |= {f"other-{number}": ("other", 10) for number in range(before // 10 + 1)}
    requests = {
        f"a-{number:02}": request("gpu", expression=f'{MODEL} == "other"') for number in range(before)
    }
    requests["b"] = request("gpu", expression=f'{MODEL} != "other"')
    requests["c"] = request("gpu", expression=f'{MODEL} == "rare"', count=2)
    more = {"bb": request("gpu", expression=f'{MODEL} == "common"', count=9)} if greedy else {}
    places = await placed(unanswered, nodes, requests | more)
    assert places.keys() == requests.keys()
    assert (places["b"], places["c"]) == ("eight", "pair")


@pytest.mark.parametrize("alike", [True, False])
async def test_nothing_is_planned_for_demands_that_are_alike(unanswered: Client, *, alike: bool) -> None:
    """Each order serves as many, so that a plan is nothing but a third more work for each pod of a burst."""
    requests = {f"c{number}": request("gpu") for number in range(8)}
    if not alike:
        requests["c7"] = request("gpu", count=2)
    with Steps(only=queue_steps) as planned_together:
        places = await placed(unanswered, {"n1": ("a", 4), "n2": ("a", 5)}, requests)
    assert places.keys() == requests.keys()
    assert (planned_together.count == 0) is alike


async def test_who_cannot_be_served_keeps_nobody_from_being_placed_together(
    unanswered: Client,
) -> None:
    """One was refused before, one errs on every device, one fits no node; the others go as if these were not there."""
    world = fleet({"pair": ("rare", 2), "eight": ("common", 8)})
    cycle = world.cycle(unanswered)
    world.wait_for("a-greedy", request("gpu", count=9))
    cycle.once()
    world.wait_for("a-odd", request("gpu", expression=f'{MODEL}s == "rare"'))
    world.wait_for("a-stray", request("gpu"), spec={"nodeSelector": {"zone": "elsewhere"}})
    world.wait_for("b", request("gpu", expression=f'{MODEL} != "other"'))
    world.wait_for("c", request("gpu", expression=f'{MODEL} == "rare"', count=2))
    cycle.once()
    assert world.places() == {"b": "eight", "c": "pair"}


async def test_the_first_in_the_queue_is_not_refused_for_the_sake_of_two(unanswered: Client) -> None:
    """Two more claims would be served without it; it came first."""
    rare = request("gpu", expression=f'{MODEL} == "rare"', count=4)
    requests = {"a": request("gpu", count=8), "b": rare, "c": rare}
    assert await placed(unanswered, {"n1": ("rare", 8), "n2": ("common", 2)}, requests) == {"a": "n1"}


async def test_a_timer_that_ends_during_a_pass_admits_no_demand_that_the_plan_left_out(
    unanswered: Client,
) -> None:
    """It was refused before, since a device was excluded: now it would take what the plan gives to those behind it."""
    world = fleet({"n1": ("common", 3)})
    deciding = Deciding(world, unanswered)
    seconds = deciding.exclusions.refuse_device(DeviceId(GPU, "n1", "gpu-0"))
    world.wait_for("a", request("gpu", count=3))
    assert deciding.decide() == {"a": 0}
    world.wait_for("b", request("gpu"))
    world.wait_for("c", request("gpu"))
    assert deciding.decide(meanwhile=seconds) == {"a": 0, "b": 1, "c": 1}
    held = [world.snapshot.state.holders(DeviceId(GPU, "n1", f"gpu-{number}")) for number in range(3)]
    assert [len(claims) for claims in held] == [0, 1, 1]


async def test_a_demand_that_a_plan_left_out_is_decided_in_the_next_pass(unanswered: Client) -> None:
    """Its time had come in the pass before."""
    world = fleet({"n1": ("common", 5)})
    deciding = Deciding(world, unanswered)
    seconds = deciding.exclusions.refuse_device(DeviceId(GPU, "n1", "gpu-0"))
    world.wait_for("a", request("gpu", count=5))
    assert deciding.decide() == {"a": 0}
    assert deciding.decide(meanwhile=seconds) == {"a": 0}
    assert deciding.decide() == {"a": 1}
