"""Pods that are evicted for a large group, or that are one, are looked at in steps that are no longer the more of them there are."""

import asyncio

import pytest

from apportion.cluster.client import Client
from apportion.scheduling.preemption.runninggroups import RunningGroups
from tests.clock import Ticking
from tests.scheduling.evicting import GROUP, SteeredEvictor, Trial, ends, holds, joins, waits
from tests.scheduling.longeststep import longest_step
from tests.scheduling.queued import fleet
from tests.steps import Steps

GPUS = 4


def full(client: Client, nodes: int, *, least: int) -> Trial:
    """Return nodes all GPUs of which pods of low priority have, and an operator that has decided before; `least`: of their group (0: they are none)."""
    world = fleet({f"n{number}": ("h100", GPUS) for number in range(nodes)})
    world.clock = Ticking()
    settings = {"mode": "LowerPriority", "after": "0s", "minRuntime": "0s"}
    world.policy("p", preemption=settings, queue={"mostReserved": 0})
    said = {"labels": {GROUP: "old"}, "annotations": {f"{GROUP}-min-count": str(least)}} if least else None
    for number in range(nodes * GPUS):
        node, gpu = divmod(number, GPUS)
        holds(world, f"low-{number}", gpu, node=f"n{node}", metadata=said, team="old")
    evictor = SteeredEvictor(world)
    made = Trial(world, world.cycle(client, evictor=evictor), evictor)
    # What is found out once counts for no step.
    waits(world, "before", 1, priority=-9)
    made.cycle.once()
    ends(world, "before")
    made.cycle.once()
    return made


@pytest.mark.parametrize("grouped", [True, False], ids=["a group", "single pods"])
async def test_the_longest_step_grows_no_faster_than_those_who_go(
    unanswered: Client, *, grouped: bool
) -> None:
    """A group was read once for each of its nodes, and looked at for each of its pods; whether each of many could stay was asked in one step."""
    longest = []
    for nodes in (6, 24):
        made = full(unanswered, nodes, least=nodes * GPUS if grouped else 0)
        joins(made.world, *(f"new-{number:02}" for number in range(nodes)), gpus=GPUS)
        made.world.clock.now += 2.0
        longest.append(longest_step(made.cycle))
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(made.evicted) == nodes * GPUS
    assert longest[1] < 7 * longest[0], longest


async def test_a_group_is_read_once_for_all_of_its_nodes(unanswered: Client) -> None:
    """It was for each: 20 ms on each of 64 nodes for one of 5,000 pods, in each search for victims."""
    nodes = 12
    made = full(unanswered, nodes, least=nodes * GPUS)
    waits(made.world, "new", 1, priority=9)
    made.world.clock.now += 2.0
    with Steps(only=RunningGroups._read) as counted:
        made.cycle.once()
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(made.evicted) == nodes * GPUS
    assert counted.count <= 3
