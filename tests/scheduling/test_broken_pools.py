"""Errors in pools are told of the slices that have them, once they are no moment of publishing."""

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import NODES
from apportion.scheduling.reports.brokenpools import PATIENCE
from apportion.scheduling.reports.telling import AT_ONCE
from tests.observedcluster import Json, ObservedCluster
from tests.steps import steps

CARD: Json = {"devices": [{"name": "gpu-0"}]}
TWICE: Json = {"devices": [{"name": "gpu-0"}, {"name": "gpu-0"}]}


def with_pools(*contents: Json, count: int = 1) -> ObservedCluster:
    """Return a world with a node for each content, and a pool of one slice on it that says it has `count`."""
    world = ObservedCluster()
    world.device_class("gpu")
    for number, content in enumerate(contents, 1):
        world.node(f"n{number}")
        world.slice(f"n{number}", f"n{number}-a", content, count)
    return world


async def test_a_pool_that_is_being_published_is_no_error(unanswered: Client) -> None:
    """A driver writes its slices one after the other, and a pass may come between."""
    world = with_pools(CARD, count=2)
    cycle = world.cycle(unanswered)
    cycle.once()
    world.clock.now += PATIENCE - 1
    cycle.once()
    world.slice("n1", "n1-b", {"devices": [{"name": "gpu-1"}]}, 2)
    world.clock.now += PATIENCE
    cycle.once()
    assert world.warned == []


async def test_a_slice_that_does_not_come_is_reported(unanswered: Client) -> None:
    """With the name of the one that is there, and of the field; and no more once its node is gone."""
    world = with_pools(CARD, count=2)
    cycle = world.cycle(unanswered)
    cycle.once()
    world.clock.now += PATIENCE
    cycle.once()
    ((name, reason, text),) = world.messages
    assert (name, reason) == ("n1-a", "BrokenPool")
    assert "spec.pool.resourceSliceCount" in text
    world.gone(NODES, world.seen[NODES, "", "n1"])
    world.clock.now += PATIENCE * 2
    cycle.once()
    assert len(world.messages) == 1


async def test_an_error_is_reported_of_its_own_slice(unanswered: Client) -> None:
    """The pool of n10 begins with the name of that of n1."""
    world = with_pools(*[CARD] * 9, TWICE)
    world.slice("n10", "n10-b", {"devices": [{"name": "gpu-9"}]}, 1, "another")
    world.cycle(unanswered).once()
    assert world.warned == [("n10-a", "BrokenPool")]


async def test_what_was_reported_is_not_looked_at_when_another_slice_comes(unanswered: Client) -> None:
    """However many pools have errors, and however many slices there are."""
    counts = []
    for broken in (2, 40):
        world = with_pools(CARD, *[TWICE] * broken)
        cycle = world.cycle(unanswered)
        cycle.once()
        assert len(world.warned) == broken
        world.slice("n1", "n1-a", {"devices": [{"name": "gpu-1"}]}, 1)
        counts.append(steps(cycle.once))
    assert abs(counts[1] - counts[0]) < 40 - 2  # not one call for each


@pytest.mark.slow
async def test_thousands_are_reported_in_turns(unanswered: Client) -> None:
    """A few in each pass, and each of them."""
    world = with_pools(*[TWICE] * (AT_ONCE + 5))
    cycle = world.cycle(unanswered)
    cycle.once()
    assert len(world.warned) == AT_ONCE
    cycle.once()
    assert len(set(world.warned)) == AT_ONCE + 5
