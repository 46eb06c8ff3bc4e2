"""A group waits for what is guaranteed to its quota as a whole, or nobody stands back behind it."""

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import PODS
from apportion.scheduling.autoscaling.autoscaling import PATIENCE
from tests.observedcluster import request
from tests.quota.test_hopeless_demands import borrowing
from tests.scheduling.evicting import GROUP, joins

ALL = ["low-0", "low-1"]
"""Pods that go for one that borrows."""


@pytest.mark.parametrize(
    ("pods", "least", "gone"),
    [
        pytest.param(("g1",), 3, ALL, id="two pods are missing, perhaps for ever"),
        pytest.param(("g1", "g2"), 2, ALL, id="together they are more than is guaranteed"),
        pytest.param(("g1",), 1, [], id="it is guaranteed"),
        pytest.param(("g1", "g2"), 1, [], id="enough of them are guaranteed"),
    ],
)
async def test_who_borrows_stands_back_behind_a_group_that_is_guaranteed_as_a_whole(
    pods: tuple[str, ...], least: int, gone: list[str], unanswered: Client
) -> None:
    """One pod of a group that never comes kept the cohort from reservations and preemption for ever, at no cost for its owner."""
    made = borrowing(unanswered)
    joins(made.world, *pods, least=least, team="a", priority=0)
    await made.passes(1)
    made.world.clock.now += PATIENCE
    await made.passes(4)
    assert sorted(made.evicted) == gone


async def test_nobody_stands_back_behind_pods_of_two_groups_that_share_a_claim(unanswered: Client) -> None:
    """Nobody serves them: each would have to start with its own group."""
    made = borrowing(unanswered)
    made.world.claim("shared", request("gpu"), namespace="a")
    for name in ("g1", "g2"):
        pod = made.world.pod(name, "shared", gates=(GATE,), namespace="a")
        pod["metadata"] |= {"labels": {GROUP: name}, "annotations": {f"{GROUP}-min-count": "1"}}
        made.world.see(PODS, pod)
    await made.passes(1)
    made.world.clock.now += PATIENCE
    await made.passes(4)
    assert sorted(made.evicted) == ALL
