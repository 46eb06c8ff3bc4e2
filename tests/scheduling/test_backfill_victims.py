"""Whom the first of the queue could evict does not take what is reserved for it: nobody knows whether it will go when it has to."""

import pytest

from apportion.cluster.client import Client
from apportion.dra.runtime import MAX_RUNTIME
from tests.observedcluster import Json
from tests.scheduling.evicting import Trial, ends, holds, starts, trial, waits

GPUS = 4


async def reserving(client: Client, runtime: str = "") -> Trial:
    """Return a node with GPUs, half of which a pod has that does not go; all of them are reserved for one of its priority. Others go at once."""
    made = trial(client, GPUS)
    preemption = {"mode": "LowerPriority", "after": "0s", "minRuntime": "0s"}
    made.world.policy("p", preemption=preemption, queue={"reserveAfter": "0s"})
    declared: Json = {"annotations": {MAX_RUNTIME: runtime}} if runtime else {}
    holds(made.world, "equal", 0, 1, priority=5, metadata=declared)
    waits(made.world, "head", GPUS, priority=5)
    await made.passes()
    [reservation] = made.cycle.reserved
    assert len(reservation.plan.results) == GPUS
    return made


async def comes(made: Trial, name: str) -> None:
    """Let a pod come that the head could evict; it starts if it gets its device."""
    waits(made.world, name, 1)
    await made.passes()
    if name in made.world.places():
        starts(made.world, name)


@pytest.mark.parametrize("runtime", ["", "1h"])
async def test_the_start_of_the_head_is_known_as_well_as_before(unanswered: Client, runtime: str) -> None:
    """Of a pod that declares nothing nobody knows when it ends, and so when the head starts."""
    made = await reserving(unanswered, runtime)
    await comes(made, "small")
    [reservation] = made.cycle.reserved
    assert (reservation.plan.start is not None) == bool(runtime)
    assert made.world.places() == {"equal": "n1"}


async def test_no_budget_keeps_the_head_from_what_is_reserved_for_it(unanswered: Client) -> None:
    """A PodDisruptionBudget may protect the small pod at any time: once it had the device, the head would wait for ever."""
    made = await reserving(unanswered)
    await comes(made, "small")
    made.evictor.protected = ("small",)
    ends(made.world, "equal")
    await made.passes(1)
    assert made.world.places() == {"head": "n1"}


async def test_who_comes_after_the_head_finds_nobody_there_that_does_not_go_for_it(
    unanswered: Client,
) -> None:
    """The head goes away; the next one has the priority of the small pod, could not evict it, and was there before it."""
    made = await reserving(unanswered)
    waits(made.world, "next", GPUS)
    await made.passes()
    await comes(made, "small")
    ends(made.world, "head", "equal")
    await made.passes(1)
    assert made.world.places() == {"next": "n1"}


async def test_others_go_for_the_head_as_soon_as_the_rest_is_free(unanswered: Client) -> None:
    """Nobody went while that would not have been enough; the search is not put off now that a pod on its node has ended."""
    made = await reserving(unanswered)
    holds(made.world, "low", 2)
    await made.passes(10)
    assert made.evicted == []
    ends(made.world, "equal")
    await made.passes(1)
    assert made.evicted == ["low"]


async def test_a_head_that_repeats_its_search_takes_nobody_s_turn(unanswered: Client) -> None:
    """Something ends on its node in each pass, and nobody may go for it; there is one search in a pass."""
    made = await reserving(unanswered)
    brings(made, "n2", 1)
    holds(made.world, "low", 0, node="n2")
    waits(made.world, "later", 1, priority=3, nodeSelector={"host": "n2"})
    for number in range(3):
        await changes(made, number)
    assert made.evicted == ["low"]


async def test_what_changes_on_its_node_keeps_no_head_from_victims_elsewhere(unanswered: Client) -> None:
    """Those are searched every 15 seconds as before."""
    made = await reserving(unanswered)
    brings(made, "n2", GPUS)
    holds(made.world, "low", *range(GPUS), node="n2")
    for number in range(12):
        await changes(made, number)
    assert made.evicted == ["low"]


def brings(made: Trial, node: str, gpus: int) -> None:
    """Let a node come."""
    made.world.node(node, cpu="64", host=node)
    devices = [{"name": f"gpu-{each}", "attributes": {"model": {"string": "h100"}}} for each in range(gpus)]
    made.world.slice(node, f"{node}-devices", {"devices": devices}, 1)


async def changes(made: Trial, number: int) -> None:
    """Let another pod of the head's priority run on its node from now on, and make a pass."""
    holds(made.world, f"more-{number}", 2, priority=5)
    if number:
        ends(made.world, f"more-{number - 1}")
    await made.passes(1)


async def test_what_is_kept_free_for_a_head_is_room_for_it_once_others_go(unanswered: Client) -> None:
    """Of 64 cores it needs more than half, and those are kept from others while it waits."""
    made = trial(unanswered, 1)
    preemption = {"mode": "LowerPriority", "after": "1m", "minRuntime": "0s"}
    made.world.policy("p", preemption=preemption, queue={"reserveAfter": "0s"})
    holds(made.world, "low", 0)
    container = {"name": "main", "resources": {"requests": {"cpu": "40"}}}
    waits(made.world, "head", 1, priority=5, containers=[container])
    await made.passes()
    [reservation] = made.cycle.reserved
    assert reservation.room["n1"].amounts["cpu"] > 32_000
    made.world.clock.now += 60.0
    await made.passes()
    assert made.evicted == ["low"]
