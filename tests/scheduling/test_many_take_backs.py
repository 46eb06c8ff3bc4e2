"""Deallocations, however many pods, nodes and members of groups they concern, are looked at in steps."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.dra.node import Node
from apportion.scheduling.candidates.exclusions import Exclusions
from apportion.scheduling.candidates.stillprepared import StillPrepared
from apportion.scheduling.pace import AT_ONCE
from tests.clock import Clock
from tests.observedcluster import ObservedCluster
from tests.scheduling.evicting import GROUP
from tests.scheduling.queued import fleet
from tests.steps import Steps, steps

MANY = 3 * AT_ONCE


def taken_back(world: ObservedCluster, *names: str, device: str = "gpu") -> None:
    """Let kube-scheduler take devices back from claims of pods that it cannot place."""
    for number, name in enumerate(names):
        raw = world.allocate(world.seen[CLAIMS, "team", name], "n1", f"{device}-{number}")
        del raw["status"]
        world.see(CLAIMS, raw)


@pytest.mark.parametrize("device", ["gpu", "unpublished"])
async def test_a_large_group_that_loses_its_devices_is_gone_through_in_steps(
    unanswered: Client, device: str
) -> None:
    """All of its pods were looked at for each of them, 64 times in a step: 0.6 s for 5,000. A rank table may name what is published no more."""
    longest = []
    for many in (MANY, 2 * MANY):
        world = fleet({"n1": ("npu", many)})
        for number in range(many):
            world.claim(f"c{number}")
            raw = world.pod(f"p{number}", f"c{number}")
            raw["metadata"] |= {"labels": {GROUP: "g"}, "annotations": {f"{GROUP}-min-count": "1"}}
            world.see(PODS, raw)
        cycle = world.cycle(unanswered)
        [*cycle._pass(longest=0.0, evaluates=False)]
        taken_back(world, *(f"c{number}" for number in range(many)), device=device)
        longest.append(max(counted(cycle._take_backs.note())))
    assert longest[1] < 3 * longest[0]
    assert longest[0] < 200 * MANY, longest


def counted(work: Iterator[None], only: Callable[..., object] | None = None) -> list[int]:
    """Return how many functions each step of some work calls, or how often this one."""
    found, more = [], True
    while more:
        with Steps(only) as each:
            more = next(work, work) is not work
        found.append(each.count)
    return found


async def test_the_nodes_that_are_left_out_with_a_refused_one_are_looked_for_in_steps(
    unanswered: Client,
) -> None:
    """For each of the pods that share a claim all nodes of the zone were, 64 times in a step."""
    longest = []
    for nodes in (10, 20):
        world = fleet({f"n{number}": ("h100", 1) for number in range(nodes * AT_ONCE)})
        world.claim("c")
        for number in range(AT_ONCE // 2):
            world.pod(f"p{number}", "c")
        cycle = world.cycle(unanswered)
        found = list[int]()
        for _ in range(2):
            taken_back(world, "c")
            found = counted(cycle._take_backs.note())
            for kept in cycle._exclusions._nodes.values():
                kept["another"] = kept.pop("n1")  # the next one is the second that is refused
        longest.append(max(found))
    assert longest[1] < 2.5 * longest[0]
    assert longest[0] < 20 * nodes * AT_ONCE


def test_the_nodes_of_one_device_are_left_out_as_one() -> None:
    """Each was compared with all of them: a second for 5,000."""
    counts = []
    for many in (50, 500):
        nodes = [Node(f"n{number}", "u") for number in range(many)]
        exclusions = Exclusions(Clock())
        counts.append(steps(partial(exclusions.refuse_nodes, "pod", nodes)))
        assert exclusions.refuse_nodes("pod", nodes) == 10
        assert exclusions.refuse_node("pod", Node("other", "u")) == 20 * many
    assert counts[1] < 15 * counts[0]


async def test_what_happened_while_another_replica_acted_is_read_in_steps(unanswered: Client) -> None:
    """Ten thousand deallocations are kept, of claims that thousands of pods may name."""
    world = fleet({"n1": ("h100", MANY)})
    for number in range(MANY):
        world.claim(f"c{number}")
    taken_back(world, *(f"c{number}" for number in range(MANY)))
    cycle = world.cycle(unanswered)
    found = counted(cycle._take_backs.skip(), StillPrepared.note)
    assert (sum(found), max(found)) == (MANY, AT_ONCE)
    assert not world.snapshot.deallocations
