"""What waits together is placed together, as long as nobody loses by it."""

import pytest

from apportion.allocator.batch import allocate_batch
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.cluster.client import connect
from apportion.scheduling.batch import MOST_TOGETHER, planned, whole
from testbed.controlplane import ControlPlane
from tests.allocator.builders import chips, claim, cluster, want
from tests.scheduling.acting import cycle_over
from tests.world import GPU, World, request


def test_nobody_is_planned_where_somebody_would_be_refused() -> None:
    """The queue's order decides who goes without."""
    state = cluster(*chips("n1"))
    demands = [Demand((claim("a", want(kind="whole")),)), Demand((claim("b", want(kind="part")),))]
    answers = dict(zip("ab", allocate_batch(state, demands), strict=True))
    assert whole(answers) == {}
    assert whole({key: answer for key, answer in answers.items() if isinstance(answer, Decision)}) != {}


def test_a_plan_is_dropped_as_a_whole_once_a_node_has_no_room() -> None:
    """What was planned for others counted on the place that is gone."""
    state = cluster(*chips("n1", 2))
    demands = [Demand((claim(name, want(kind="part")),)) for name in "ab"]
    plan = whole(dict(zip("ab", allocate_batch(state, demands), strict=True)))
    assert planned(plan, "a", frozenset(["n1"])) is not None
    assert planned(plan, "a", frozenset(["n2"])) is None
    assert planned(plan, "b", frozenset(["n1"])) is None


@pytest.mark.parametrize("before", [0, MOST_TOGETHER + 8])
async def test_the_last_that_wait_are_placed_together(control_plane: ControlPlane, before: int) -> None:
    """One by one, the small claim would break the only pair of its model, on the fuller node, and the large one wait."""
    world = World()
    world.device_class("gpu")
    nodes = {"pair": ("rare", 2), "eight": ("common", 8)}
    nodes |= {f"other-{number}": ("other", 10) for number in range(before // 10 + 1)}
    for node, (model, count) in nodes.items():
        world.node(node, cpu="64")
        devices = [
            {"name": f"gpu-{number}", "attributes": {"model": {"string": model}}} for number in range(count)
        ]
        world.slice(node, f"{node}-devices", {"devices": devices}, 1)
    model = f'device.attributes["{GPU}"].model'
    wishes = {f"a-{number:02}": request("gpu", expression=f'{model} == "other"') for number in range(before)}
    wishes["b"] = request("gpu", expression=f'{model} != "other"')
    wishes["c"] = request("gpu", expression=f'{model} == "rare"', count=2)
    for name, wish in wishes.items():
        world.claim(name, wish)
        world.pod(name, name)
    async with await connect(control_plane.kubeconfig, manager="apportion-operator") as client:
        cycle_over(client, world.snapshot, []).once()
    places = {
        claim.name: allocation.node
        for claim in world.snapshot.claims.values()
        if (allocation := world.snapshot.allocation(claim)) is not None
    }
    assert places.keys() == wishes.keys()
    assert (places["b"], places["c"]) == ("eight", "pair")
