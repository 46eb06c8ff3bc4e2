"""The next leader keeps what ends for whom it would serve before it decides about anybody, as the one before did."""

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.settings import CycleSettings
from tests.observedcluster import ObservedCluster, request
from tests.scheduling.evicting import Trial, ends, holds, joins, mark_ending, trial, waits
from tests.scheduling.queued import MODEL

_ROUNDS = str(list(range(20)))
COSTLY = f'{_ROUNDS}.all(a, {_ROUNDS}.all(b, a*b >= 0 && {MODEL} == "h100"))'
"""True of each device, after 400 steps."""


def taken_over(client: Client, nodes: int = 1, gpus: int = 2) -> Trial:
    """Return nodes with a pod that ends, beside what is free by now, and a small pod of low priority."""
    made = trial(client, gpus, nodes=nodes, after="10s")
    for node in range(1, nodes + 1):
        holds(made.world, f"low-{node}", 0, priority=-2, node=f"n{node}")
        mark_ending(made.world, f"low-{node}")
    waits(made.world, "small", 1, priority=-1)
    return made


@pytest.mark.parametrize("term", ["first", "second"])
async def test_a_smaller_pod_of_lower_priority_gets_nothing_of_what_is_waited_for(
    unanswered: Client, term: str
) -> None:
    """It had the free GPU in the first pass, and was evicted for the same pod a moment later."""
    if term == "second":
        made = trial(unanswered, 2, after="10s")
        await made.passes()
        await made.cycle.preemptions.end()
        holds(made.world, "low-1", 0, priority=-2)
        mark_ending(made.world, "low-1")
        waits(made.world, "small", 1, priority=-1)
    else:
        made = taken_over(unanswered)
    waits(made.world, "large", 2, priority=5)
    await made.passes(20)
    assert made.world.places().keys() == {"low-1"}
    ends(made.world, "low-1")
    await made.passes()
    assert made.world.places() == {"large": "n1"}
    assert made.evicted == []


async def test_each_of_several_has_what_it_waits_for(unanswered: Client) -> None:
    """Not only the first of them: one search a second is for those for whom pods are to be evicted."""
    made = taken_over(unanswered, nodes=3)
    for number in range(3):
        waits(made.world, f"large-{number}", 2, priority=5)
    await made.passes(1)
    assert "small" not in made.world.places()
    assert len(made.cycle.preemptions.active) == 3


async def test_each_of_many_has_what_it_waits_for(unanswered: Client) -> None:
    """One turn of searches is for 16; those behind them were overtaken, and pods evicted for them once more."""
    made = taken_over(unanswered, nodes=20)
    for number in range(20):
        waits(made.world, f"large-{number}", 2, priority=5)
        waits(made.world, f"small-{number}", 1, priority=-1)
    await made.passes(1)
    assert not [name for name in made.world.places() if name.startswith("small")]
    assert len(made.cycle.preemptions.active) == 20
    await made.passes(12)
    assert made.evicted == []


async def test_the_last_of_many_nodes_is_looked_at(unanswered: Client) -> None:
    """A search looks at 32."""
    made = taken_over(unanswered, nodes=40)
    for number in range(1, 41):
        if number != 9:
            holds(made.world, f"beside-{number}", 1, node=f"n{number}", priority=9)
    waits(made.world, "large", 2, priority=5)
    await made.passes(1)
    assert "small" not in made.world.places()


def asks_costly(world: ObservedCluster, gpus: int = 2) -> None:
    """Let a pod of high priority wait by a costly selector."""
    world.claim("large", request("gpu", count=gpus, expression=COSTLY), namespace="team")
    world.pod("large", "large", gates=(GATE,), spec={"priority": 5}, namespace="team")


@pytest.mark.parametrize(("gpus", "kept"), [(2, True), (3, False)])
async def test_what_ends_is_kept_until_costly_selectors_are_evaluated(
    unanswered: Client, gpus: int, *, kept: bool
) -> None:
    """A new leader has evaluated none yet; a smaller pod is served once it is known that what ends is not enough."""
    made = taken_over(unanswered)
    asks_costly(made.world, gpus)
    await made.passes(1)
    assert "small" not in made.world.places()
    await made.passes(12)
    assert ("small" not in made.world.places()) is kept
    assert made.evicted == []


async def test_nothing_is_kept_for_selectors_that_cost_too_much(unanswered: Client) -> None:
    """They are never evaluated."""
    made = taken_over(unanswered)
    made.cycle = made.world.cycle(unanswered, CycleSettings(selectors=100), evictor=made.evictor)
    asks_costly(made.world)
    await made.passes(3)
    assert made.world.places()["small"] == "n1"


async def test_a_group_has_what_it_waits_for(unanswered: Client) -> None:
    """On all nodes."""
    made = taken_over(unanswered, nodes=2)
    joins(made.world, "a", "b", gpus=2)
    await made.passes(1)
    assert "small" not in made.world.places()
    ends(made.world, "low-1", "low-2")
    await made.passes()
    assert made.world.places().keys() == {"a", "b"}


async def test_a_smaller_pod_is_served_where_what_ends_is_not_enough(unanswered: Client) -> None:
    """Nothing is kept for who could not be served by it."""
    made = taken_over(unanswered)
    waits(made.world, "large", 3, priority=5)
    await made.passes(1)
    assert made.world.places()["small"] == "n1"
