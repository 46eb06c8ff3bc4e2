"""Whether others could use what stalled pods keep is asked in steps."""

from collections.abc import Iterator
from typing import Any

import pytest

from apportion.allocator.allocate import catching_up
from apportion.allocator.demand import Demand
from apportion.cluster.client import Client
from apportion.scheduling.clearing import wantedclaims
from tests.observedcluster import ObservedCluster
from tests.scheduling.givenback import UNUSED_TIMEOUT, tried
from tests.scheduling.longeststep import longest_step, served_before
from tests.scheduling.test_hard_claims_in_steps import MOST_CALLS, hard_claim, hard_world

pytestmark = pytest.mark.slow


def stall(world: ObservedCluster, count: int) -> None:
    """Give so many devices to claims whose pods no scheduler takes."""
    for number in range(count):
        world.allocate(world.claim(f"kept{number}"), "n0", f"d{number}")
        world.pod(f"stuck{number}", f"kept{number}")


async def test_no_step_takes_long_where_hard_claims_wait_for_what_is_kept(unanswered: Client) -> None:
    """Sixteen of them were asked about each stalled claim in one step: a third of a second each time."""
    world = hard_world(1)
    cycle = served_before(world, unanswered)
    stall(world, 4)
    hard_claim(world, 0, 24)
    cycle.once()
    world.clock.now += UNUSED_TIMEOUT + 1
    assert longest_step(cycle) < MOST_CALLS


async def test_a_claim_that_needs_a_long_search_gets_what_is_kept(unanswered: Client) -> None:
    """Several devices of which each has another value; while the search pauses nobody else sees them as free."""
    world = hard_world(1)
    cycle = served_before(world, unanswered)
    stall(world, 110)
    hard_claim(world, 0, 8)
    assert await tried(cycle) == []
    world.clock.now += UNUSED_TIMEOUT + 1
    held = {
        len(world.snapshot.state.holders(result.device)) > 0
        for _ in cycle._pass(longest=1e9, evaluates=False)
        for claim in world.snapshot.claims.values()
        if claim.allocation is not None
        for result in claim.allocation.results
    }
    assert held == {True}
    assert cycle._tidying._writes.clearing


async def test_in_one_pass_it_is_asked_for_a_tenth_of_a_second_where_that_needs_long_searches(
    unanswered: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is not asked then has its turn in a later pass; all of them for all stalled claims would keep everybody from the next pass for as long as that takes."""
    world = hard_world(1)
    cycle = served_before(world, unanswered)
    stall(world, 2)
    for number in range(3):
        hard_claim(world, number, 24, *([f"{number} > 0"] if number else ()))
    cycle.once()
    asked: set[str] = set()

    def slowly(state: Any, demand: Demand, *args: Any, **more: Any) -> Iterator[bool]:
        asked.update(claim.name for claim in demand.claims)
        world.clock.now += 0.06
        return catching_up(state, demand, *args, **more)

    monkeypatch.setattr(wantedclaims, "catching_up", slowly)
    world.clock.now += UNUSED_TIMEOUT + 1
    cycle.once()
    assert len(asked) == 2
    for _ in range(3):
        world.clock.now += 11
        cycle.once()
    assert asked == {"c0", "c1", "c2"}
