"""A queue that no walk gets to the end of keeps nobody from what pods are evicted for, and nothing is kept for ever that nobody takes."""

import asyncio

import pytest

from apportion.cluster.client import Client
from tests.clock import Ticking
from tests.quota.tenants import namespace, quota
from tests.scheduling.busywalks import once
from tests.scheduling.evicting import Trial, ends, holds, joins, trial, waits

MANY = 150
PASSES = 40


def loaded(client: Client, nodes: int = 1) -> Trial:
    """Return a full node, pods of low priority that no walk looks at all of, and a clock that ticks."""
    made = trial(client, MANY + 1, nodes=nodes, cooldown="10m")
    made.world.clock = Ticking(made.world.clock.now)
    made = Trial(made.world, made.world.cycle(client, evictor=made.evictor), made.evictor)
    for node in range(nodes):
        holds(made.world, f"low-{node}", 0, priority=-1, node=f"n{node + 1}")
        holds(made.world, f"rest-{node}", *range(1, MANY + 1), priority=9, node=f"n{node + 1}")
    for number in range(MANY):
        # None of them is like another one.
        waits(made.world, f"w{number}", number + 2, priority=-5)
    return made


async def work(made: Trial, passes: int = PASSES) -> int:
    """Make passes as the operator does; returns how many of them looked at the whole queue."""
    whole = 0
    for _ in range(passes):
        whole += not once(made.cycle)
        for _ in range(5):
            await asyncio.sleep(0)
    return whole


@pytest.mark.slow
async def test_pods_go_for_a_pod_though_no_walk_ends(unanswered: Client) -> None:
    """It is the first of the queue, and was refused in the first walk."""
    made = loaded(unanswered)
    waits(made.world, "high", 1, priority=5)
    assert await work(made) == 0
    assert made.evicted == ["low-0"]


@pytest.mark.slow
async def test_pods_go_for_a_group_though_no_walk_ends(unanswered: Client) -> None:
    """The same of a group."""
    made = loaded(unanswered, nodes=2)
    joins(made.world, "a", "b")
    assert await work(made) == 0
    assert sorted(made.evicted) == ["low-0", "low-1"]


@pytest.mark.slow
async def test_what_nobody_takes_is_free_though_no_walk_ends(unanswered: Client) -> None:
    """The quota of who waits is used up since the pods went: after a minute others may have what they left."""
    made = loaded(unanswered)
    namespace(made.world, "other", team="other")
    quota(made.world, "other", limit=1)
    waits(made.world, "high", 1, priority=5, team="other")
    await work(made)
    assert made.evicted == ["low-0"]
    quota(made.world, "other", limit=0)
    ends(made.world, "low-0")
    await work(made)
    made.world.clock.now += 61.0
    assert await work(made, 2) == 0
    assert [*made.cycle.preemptions.active] == []
