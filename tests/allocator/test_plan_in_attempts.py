"""A plan that is given up now and then, and begun anew by what is known, is the one that is made in one go."""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.allocator.allocate import decide
from apportion.allocator.demand import Demand
from apportion.allocator.gang.members import Member
from apportion.allocator.nodeanswers import EVERYWHERE, NodeAnswers, Unfinished
from apportion.allocator.reservation import ReservationPlan, plan_reservation
from apportion.allocator.state import State
from tests.allocator.builders import claim, device_request
from tests.allocator.test_reservation import NOW, REQUESTS, OnNode, World, worlds
from tests.steps import Steps

pytestmark = pytest.mark.slow


def _plan(
    world: World, state: State, wanted: Sequence[Demand], found: NodeAnswers | None = None
) -> ReservationPlan | None:
    members = [Member(kind="one") for _ in wanted]
    return plan_reservation(
        state, world.endings(), members, OnNode(world, wanted), enough=len(wanted), now=NOW, answers=found
    )


def _in_attempts(
    world: World,
    state: State,
    wanted: Sequence[Demand],
    most: float,
    meanwhile: Callable[[], Collection[str] | None] = lambda: (),
) -> tuple[ReservationPlan | None, int]:
    """Return the plan, and how many attempts were given up; `meanwhile` returns what changed after one."""
    found, given_up = NodeAnswers(most), 0
    while True:
        try:
            return _plan(world, state, wanted, found), given_up
        except Unfinished:
            given_up += 1
            found.begin(meanwhile())


@given(worlds(), REQUESTS, st.integers(1, 3), st.integers(1, 5))
@settings(max_examples=150, deadline=None)
def test_it_is_the_same_plan_and_between_attempts_the_state_is_as_it_was(
    world: World, request: dict[str, object], members: int, most: int
) -> None:
    state, before = world.state(), world.state().held()
    wanted = [Demand((claim(f"m{number}", request),)) for number in range(members)]

    def unchanged() -> tuple[str, ...]:
        assert state.held() == before
        return ()

    plan, _ = _in_attempts(world, state, wanted, most, unchanged)
    assert plan == _plan(world, state, wanted)


@given(worlds(), REQUESTS, st.integers(0, 2), st.integers(1, 3), st.sampled_from(["node", "any"]))
@settings(max_examples=150, deadline=None)
def test_what_changes_between_two_attempts_counts(
    world: World, request: dict[str, object], number: int, most: int, changed: str
) -> None:
    """All that holds devices of a node is gone; where nobody knows what changed all is asked anew."""
    node = [*world.kinds][number % len(world.kinds)]
    wanted = [Demand((claim("head", request),))]
    found, state = NodeAnswers(most), world.state()
    try:
        _plan(world, state, wanted, found)
    except Unfinished:
        pass
    else:
        return  # nothing is left to be asked
    for ending in world.endings()[node]:
        state.release_all(key for key, _ in ending.held)
    found.begin({node} if changed == "node" else None)
    world = replace(world, held={**world.held, node: ()})
    plan = None
    for _ in range(100):
        with suppress(Unfinished):
            plan = _plan(world, state, wanted, found)
            break
        found.begin(())
    assert plan == _plan(world, world.state(), wanted)


def test_an_attempt_asks_so_much_and_a_plan_ends_also_where_all_nodes_change_all_the_time() -> None:
    rows = tuple((11.0 + number, (f"gpu-{number}",)) for number in range(4))
    world = World({f"n{number}": "gpu" for number in range(30)}, {f"n{n}": rows for n in range(30)})
    wanted = [Demand((claim(f"m{number}", device_request(count=4)),)) for number in range(20)]
    with Steps(only=decide) as asked:
        _, given_up = _in_attempts(world, world.state(), wanted, 8)
    assert asked.count >= 20
    assert given_up > 2
    plan, given_up = _in_attempts(world, world.state(), wanted, 8, lambda: None)
    assert plan is not None
    assert given_up <= 5


def test_what_was_found_out_about_all_nodes_is_asked_anew_once_one_changed() -> None:
    """And as with a change of all nodes the next attempt may ask twice as much, or a plan would never end where nodes change all the time."""
    answers = NodeAnswers(most=1)
    assert answers.of(EVERYWHERE, "suiting", lambda: 1) == 1
    answers.begin(())
    assert answers.of(EVERYWHERE, "suiting", lambda: 2) == 1
    answers.begin(("n1",))
    assert answers.of(EVERYWHERE, "suiting", lambda: 2) == 2
    assert answers.of("n2", "free", lambda: 3) == 3
