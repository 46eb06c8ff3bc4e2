"""On small worlds `allocate` finds exactly the solutions that brute force finds."""

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.explain.render import render, summary
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.terms import Terms
from apportion.allocator.world import read_world
from tests.allocator.bruteforce import alternatives_taken, first_solution
from tests.allocator.conformance import answer
from tests.allocator.randomworlds import worlds
from tests.allocator.referencenode import ReferenceNode
from tests.allocator.validity import violations

pytestmark = pytest.mark.slow

THOROUGH = settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])
QUICK = settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])


@THOROUGH
@given(raw=worlds())
def test_first_fit_returns_the_first_solution_of_brute_force(raw: dict[str, Any]) -> None:
    """Equal verdict, and device for device upstream's first solution."""
    expected = first_solution(raw)

    given_ = answer(raw, Strategy.FIRST_FIT)

    event("solvable" if expected is not None else "not solvable")
    if expected is None:
        assert given_["kind"] == "none"
        return
    node = ReferenceNode(raw)
    wanted = [
        sorted(
            (node.alternatives(claim, request)[alternative][0], device)
            for claim, request, alternative, devices in expected
            if claim == number
            for device in devices
        )
        for number in range(len(raw["claims"]))
    ]
    assert [
        sorted(
            (row["request"], (row["driver"], row["pool"], row["device"])) for row in one["devices"]["results"]
        )
        for one in given_["results"]
    ] == wanted
    assert violations(raw, given_["results"]) == []


@THOROUGH
@given(raw=worlds(), strategy=st.sampled_from([Strategy.PACK, Strategy.SPREAD]))
def test_scoring_finds_a_legal_solution_exactly_if_one_exists(
    raw: dict[str, Any], strategy: Strategy
) -> None:
    """The verdict is independent of the strategy; no request gets a later alternative than brute force finds first.

    An earlier one is possible: brute force gives the first devices to the first request, and a later request's first
    alternative may need them.
    """
    expected = first_solution(raw)

    given_ = answer(raw, strategy)

    assert given_["kind"] == ("none" if expected is None else "results")
    if expected is not None:
        assert violations(raw, given_["results"]) == []
        assert alternatives_taken(raw, given_["results"]) <= [
            alternative for _, _, alternative, _ in sorted(expected)
        ]


@QUICK
@given(raw=worlds(), seed=st.integers(0, 1000), strategy=st.sampled_from(Strategy))
def test_the_answer_is_independent_of_the_order_of_slices(
    raw: dict[str, Any], seed: int, strategy: Strategy
) -> None:
    """Slices may arrive in any order; a second call returns the same answer."""
    shuffled = raw | {"slices": random.Random(seed).sample(raw["slices"], len(raw["slices"]))}  # noqa: S311

    world = read_world(raw)
    answers = [allocate(world.state, world.demand, Terms(strategy)) for _ in range(2)]
    other = read_world(shuffled)

    assert answers[0] == answers[1]
    assert answers[0] == allocate(other.state, other.demand, Terms(strategy))


@QUICK
@given(raw=worlds(), strategy=st.sampled_from(Strategy))
def test_hold_and_release_restore_the_answer_and_the_holders(raw: dict[str, Any], strategy: Strategy) -> None:
    """After hold and release the same demand gets the same answer, and the holders are those from before."""
    world = read_world(raw)
    before = allocate(world.state, world.demand, Terms(strategy))
    if not isinstance(before, Decision):
        return
    held = [result.device for one in before.allocations for result in one.results]
    owners = [world.state.holders(device) for device in held]
    for number, one in enumerate(before.allocations):
        world.state.hold(f"mine-{number}", one.results)
    between = allocate(world.state, world.demand, Terms(strategy))
    for number in range(len(before.allocations)):
        world.state.release(f"mine-{number}")

    assert isinstance(between, Decision | Refusal)
    assert allocate(world.state, world.demand, Terms(strategy)) == before
    assert [world.state.holders(device) for device in held] == owners


@QUICK
@given(raw=worlds(), more=st.lists(worlds(), min_size=1, max_size=4), strategy=st.sampled_from(Strategy))
def test_no_device_is_allocated_twice_in_a_sequence_of_claims(
    raw: dict[str, Any], more: list[dict[str, Any]], strategy: Strategy
) -> None:
    """A sequence of claims on one state: each answer is legal given all earlier allocations."""
    world = read_world(raw)
    allocated = {key: list(rows) for key, rows in raw["allocated"].items()}
    used = {}
    for turn, other in enumerate(more):
        claims = read_world(other).demand.claims
        found = allocate(world.state, Demand(claims), Terms(strategy))
        now = raw | {"claims": other["claims"], "allocated": allocated}
        if isinstance(found, Refusal):
            assert first_solution(now) is None
            continue
        assert violations(now, [one.to_json() for one in found.allocations]) == []
        for number, one in enumerate(found.allocations):
            world.state.hold(f"{turn}-{number}", one.results)
            for result in one.to_json()["devices"]["results"]:
                _add(allocated, used, result)


def _add(allocated: dict[str, Any], used: dict[Any, Any], result: dict[str, Any]) -> None:
    where = {key: result[key] for key in ("driver", "pool", "device")}
    if result.get("adminAccess"):
        return
    if not result.get("shareID"):
        allocated["devices"].append(where)
        return
    allocated["shared"].append(where | {"shareID": result["shareID"]})
    row = next((row for row in allocated["capacity"] if all(row[key] == where[key] for key in where)), None)
    before = row["consumed"] if row else {}
    names = {*before, *result.get("consumedCapacity", {})}
    merged = {
        name: str(int(before.get(name, 0)) + int(result.get("consumedCapacity", {}).get(name, 0)))
        for name in names
    }
    if row:
        allocated["capacity"][allocated["capacity"].index(row)] = where | {"consumed": merged}
    else:
        allocated["capacity"].append(where | {"consumed": merged})


@QUICK
@given(raw=worlds())
def test_every_refusal_has_an_explanation_that_fits_into_an_event(raw: dict[str, Any]) -> None:
    """Every refusal in a random world has a reason that fits into an Event."""
    world = read_world(raw)
    found = allocate(world.state, world.demand)
    if isinstance(found, Refusal):
        assert found.explanation.groups
        assert 0 < len(summary(found.explanation)) <= 1000
        assert render(found.explanation)
