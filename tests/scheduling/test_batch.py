"""What waits together is placed together, as long as nobody loses by it."""

from collections.abc import Mapping

import pytest

from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.queue import allocate_queue
from apportion.cluster.client import connect
from apportion.scheduling.batch import MOST_TOGETHER, planned
from testbed.controlplane import ControlPlane
from tests.allocator.builders import chips, claim, cluster
from tests.allocator.builders import device_request as want
from tests.observedcluster import GPU, Json, request
from tests.observedcluster import ObservedCluster as World
from tests.scheduling.acting import cycle_over

MODEL = f'device.attributes["{GPU}"].model'


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


def parts(names: str) -> list[Demand]:
    """Return claims for a part of a chip each."""
    return [Demand((claim(name, want(kind="part")),)) for name in names]


@pytest.mark.parametrize(("before", "greedy"), [(0, False), (MOST_TOGETHER + 8, False), (0, True)])
async def test_the_last_that_wait_are_placed_together(
    control_plane: ControlPlane, before: int, *, greedy: bool
) -> None:
    """One by one, the small claim would break the only pair of its model, on the fuller node, and the large one wait.

    `greedy`: somebody among them asks for more than there is, and goes without.
    """
    nodes = {"pair": ("rare", 2), "eight": ("common", 8)}
    nodes |= {f"other-{number}": ("other", 10) for number in range(before // 10 + 1)}
    wishes = {f"a-{number:02}": request("gpu", expression=f'{MODEL} == "other"') for number in range(before)}
    wishes["b"] = request("gpu", expression=f'{MODEL} != "other"')
    wishes["c"] = request("gpu", expression=f'{MODEL} == "rare"', count=2)
    more = {"bb": request("gpu", expression=f'{MODEL} == "common"', count=9)} if greedy else {}
    places = await placed(control_plane, nodes, wishes | more)
    assert places.keys() == wishes.keys()
    assert (places["b"], places["c"]) == ("eight", "pair")


async def test_who_cannot_be_served_keeps_nobody_from_being_placed_together(
    control_plane: ControlPlane,
) -> None:
    """One was refused before, one errs on every device, one fits no node; the others go as if these were not there."""
    world = fleet({"pair": ("rare", 2), "eight": ("common", 8)})
    async with await connect(control_plane.kubeconfig, manager="apportion-operator") as client:
        cycle = cycle_over(client, world.snapshot, [])
        wait_for(world, "a-greedy", request("gpu", count=9))
        cycle.once()
        wait_for(world, "a-odd", request("gpu", expression=f'{MODEL}s == "rare"'))
        wait_for(world, "a-stray", request("gpu"), spec={"nodeSelector": {"zone": "elsewhere"}})
        wait_for(world, "b", request("gpu", expression=f'{MODEL} != "other"'))
        wait_for(world, "c", request("gpu", expression=f'{MODEL} == "rare"', count=2))
        cycle.once()
    assert places(world) == {"b": "eight", "c": "pair"}


async def test_the_first_in_the_queue_is_not_refused_for_the_sake_of_two(control_plane: ControlPlane) -> None:
    """Together more claims would be served without it; it came first."""
    rare = request("gpu", expression=f'{MODEL} == "rare"', count=4)
    wishes = {"a": request("gpu", count=8), "b": rare, "c": rare}
    assert await placed(control_plane, {"n1": ("rare", 8), "n2": ("common", 2)}, wishes) == {"a": "n1"}


async def placed(
    control_plane: ControlPlane, nodes: Mapping[str, tuple[str, int]], wishes: Mapping[str, Json]
) -> dict[str, str | None]:
    """Let a cycle decide for claims that wait together; return the nodes of those that are served."""
    world = fleet(nodes)
    for name, wish in wishes.items():
        wait_for(world, name, wish)
    async with await connect(control_plane.kubeconfig, manager="apportion-operator") as client:
        cycle_over(client, world.snapshot, []).once()
    return places(world)


def fleet(nodes: Mapping[str, tuple[str, int]]) -> World:
    """Return nodes with so many devices of a model each."""
    world = World()
    world.device_class("gpu")
    for node, (model, count) in nodes.items():
        world.node(node, cpu="64")
        devices = [
            {"name": f"gpu-{number}", "attributes": {"model": {"string": model}}} for number in range(count)
        ]
        world.slice(node, f"{node}-devices", {"devices": devices}, 1)
    return world


def wait_for(world: World, name: str, wish: Json, spec: Json | None = None) -> None:
    """Let a pod come that wants this."""
    world.claim(name, wish)
    world.pod(name, name, spec=spec)


def places(world: World) -> dict[str, str | None]:
    """Return the nodes of the claims that are served."""
    return {
        claim.name: allocation.node
        for claim in world.snapshot.claims.values()
        if (allocation := world.snapshot.allocation(claim)) is not None
    }
