"""Victims for a group for which devices are reserved are searched again when something changes on its nodes, and not in every pass."""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import pytest

from apportion.cluster.client import Client
from apportion.scheduling.preemption.victimsearch import VictimSearch
from tests.clock import Clock
from tests.scheduling.evicting import Trial, ends, holds, joins, mark_ending, trial, waits

PRIORITY = 5


def held_by_equals(client: Client, nodes: int = 2) -> Trial:
    """Return nodes with two GPUs each: of each a pod of priority PRIORITY has one, one that may go the other one."""
    made = trial(client, 2, nodes=nodes)
    for node in range(1, nodes + 1):
        holds(made.world, f"equal-{node}", 0, node=f"n{node}", priority=PRIORITY)
        holds(made.world, f"low-{node}", 1, node=f"n{node}")
    return made


async def reserving(client: Client, nodes: int = 2) -> Trial:
    """Return such nodes, all of which are reserved for a group."""
    made = held_by_equals(client, nodes)
    preemption = {"mode": "LowerPriority", "after": "0s", "minRuntime": "0s"}
    made.world.policy("p", preemption=preemption, queue={"reserveAfter": "0s"})
    joins(made.world, *(f"member-{node}" for node in range(1, nodes + 1)), gpus=2, priority=PRIORITY)
    await made.passes()
    [reservation] = made.cycle.reserved
    assert len(reservation.plan.nodes) == nodes
    assert made.evicted == []
    return made


async def test_others_go_for_a_group_as_soon_as_the_rest_is_free(unanswered: Client) -> None:
    """Nobody went while that would not have been enough; the search is not put off now that the others have ended."""
    made = await reserving(unanswered)
    ends(made.world, "equal-1", "equal-2")
    await made.passes(1)
    assert sorted(made.evicted) == ["low-1", "low-2"]
    ends(made.world, "low-1", "low-2")
    await made.passes(1)
    assert {"member-1", "member-2"} <= made.world.places().keys()


@pytest.mark.parametrize("members", [1, 2])
async def test_where_nothing_is_reserved_others_go_as_soon_as_the_rest_is_free(
    unanswered: Client, members: int
) -> None:
    """For a group, or a single pod: what was not enough before is looked at again when something changed."""
    made = held_by_equals(unanswered)
    if members == 1:
        waits(made.world, "member-1", 2, priority=PRIORITY)
    else:
        joins(made.world, "member-1", "member-2", gpus=2, priority=PRIORITY)
    await made.passes()
    assert made.evicted == []
    ends(made.world, *(f"equal-{node}" for node in range(1, members + 1)))
    await made.passes(1)
    assert sorted(made.evicted) == [f"low-{node}" for node in range(1, members + 1)]


async def test_where_nothing_is_reserved_nobody_is_searched_for_while_nothing_changes(
    unanswered: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But every 15 s."""
    made = held_by_equals(unanswered)
    joins(made.world, "member-1", "member-2", gpus=2, priority=PRIORITY)
    await made.passes()
    slow = Slow(made.world.clock, 0.0)
    slow.patch(monkeypatch)
    await made.passes(8)
    assert slow.count == 0
    await made.passes(2)
    assert slow.count == 1


async def test_others_that_are_searched_for_put_nothing_off(unanswered: Client) -> None:
    """In every second somebody of many is due, for whom nobody goes."""
    made = await reserving(unanswered)
    for number in range(20):
        waits(made.world, f"other-{number}", 2, priority=0)
    await made.passes()
    ends(made.world, "equal-1", "equal-2")
    await made.passes(1)
    assert sorted(made.evicted) == ["low-1", "low-2"]


@pytest.mark.slow
async def test_a_large_group_that_rests_is_looked_at_all_the_same(unanswered: Client) -> None:
    """It was refused several times, and rests for some more seconds; nobody else may use what becomes free on its nodes."""
    made = await reserving(unanswered, nodes=32)
    for number in range(8):
        await changes(made, number)
    assert made.evicted == []
    ends(made.world, "more-7", *(f"equal-{node}" for node in range(2, 33)))
    await made.passes(1)
    assert len(made.evicted) == 32


async def test_nobody_goes_for_a_group_as_long_as_one_of_its_nodes_is_not_free(unanswered: Client) -> None:
    """What became free on one node is not enough."""
    made = await reserving(unanswered)
    ends(made.world, "equal-1")
    await made.passes(3)
    assert made.evicted == []


async def test_victims_elsewhere_are_not_looked_at_before_their_time(unanswered: Client) -> None:
    """The search that comes at once is for the nodes that are reserved alone, so that its cost does not grow with the cluster."""
    made = await reserving(unanswered)
    for number in range(3, 5):
        made.world.node(f"n{number}", cpu="64")
        devices = [{"name": f"gpu-{each}", "attributes": {"model": {"string": "h100"}}} for each in range(2)]
        made.world.slice(f"n{number}", f"n{number}-devices", {"devices": devices}, 1)
        holds(made.world, f"low-{number}", 0, 1, node=f"n{number}")
    ends(made.world, "equal-1")
    await made.passes(1)
    assert made.evicted == []
    await made.passes(12)
    assert len(made.evicted) == 2


async def test_a_search_among_those_that_end_anyway_puts_off_no_eviction(unanswered: Client) -> None:
    """Before `after` only these are looked at; when it is over, others go at once."""
    made = trial(unanswered, 2, nodes=2, after="20s")
    holds(made.world, "low", 0, 1)
    holds(made.world, "equal", 0, node="n2", priority=PRIORITY)
    holds(made.world, "ends", 1, node="n2")
    mark_ending(made.world, "ends")
    waits(made.world, "head", 2, priority=PRIORITY)
    await made.passes(14)
    assert made.evicted == []
    await made.passes(1)
    assert made.evicted == ["low"]


@dataclass
class Slow:
    """Searches that take as long as a test says; counts them."""

    clock: Clock
    seconds: float
    count: int = 0
    original: Any = field(default=VictimSearch.search)

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let searches take their time."""

        def search(own: VictimSearch, *given: Any, **named: Any) -> Generator[None, None, Any]:
            self.count += 1
            self.clock.now += self.seconds
            return (yield from self.original(own, *given, **named))

        monkeypatch.setattr(VictimSearch, "search", search)


@pytest.mark.parametrize(("seconds", "count"), [(0.0, 9), (0.2, 4), (1.0, 2)])
async def test_searches_that_take_long_are_not_repeated_in_every_pass(
    unanswered: Client, monkeypatch: pytest.MonkeyPatch, seconds: float, count: int
) -> None:
    """They have a twentieth of the time, also where its nodes change in each of nine passes, 1.5 s apart; the one of every 15 s comes as before."""
    made = await reserving(unanswered)
    slow = Slow(made.world.clock, seconds)
    slow.patch(monkeypatch)
    for number in range(9):
        await changes(made, number)
    assert slow.count == count


async def changes(made: Trial, number: int) -> None:
    """Let a pod of the group's priority end on one of its nodes, another one come in its place, and make a pass."""
    ends(made.world, f"more-{number - 1}" if number else "equal-1")
    holds(made.world, f"more-{number}", 0, priority=PRIORITY)
    await made.passes(1)
