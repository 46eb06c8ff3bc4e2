"""LeastFragmentation leaves devices of a model to those who can use no other."""

from collections.abc import Mapping

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from tests.allocator.builders import asked, claim, made, put

LEAST = Strategy.LEAST_FRAGMENTATION


def test_devices_that_only_some_can_use_are_left_to_them() -> None:
    """Who can go anywhere does not take the last devices of those who cannot."""
    state = made({"n1": ("special", 4), "n2": ("any", 4)})
    foretell(state, {("special", 1): 8, ("all", 1): 8})
    for number in range(3):
        assert take(state, f"any-{number}", "all") == "n2"


def test_what_others_take_is_reckoned_against_the_whole_market() -> None:
    """Six of ten claims want `big` only, one `small` only: of 15 and 5 devices left, 15 are the shorter supply.

    Twelve of the twenty will go to those who want `big` only, two to those who want `small` only, in devices; that
    is one standard deviation above need for `big`, nearly two for `small`.
    """
    rows = {f"n{number:02}": ("big" if number < 15 else "small", 1) for number in range(20)}
    state = made(rows)
    foretell(state, {("big", 1): 12, ("small", 1): 2, ("all", 1): 6})
    assert rows[take(state, "c", "all")][0] == "small"


@pytest.mark.parametrize(("count", "node"), [(1, "h0"), (4, "a0")])
def test_a_model_in_short_supply_is_worth_no_whole_node(count: int, node: str) -> None:
    """The demand is short of `h`: one device is worth less than a whole node of the other model, four are worth more."""
    state = made({"h0": ("h", 6), "a0": ("a", 8)})
    foretell(state, {("h", 4): 4, ("a", 4): 3, ("all", 1): 1, ("all", 4): 3})
    assert take(state, "c", "all", count) == node


def test_many_devices_cost_those_who_need_them_as_much_as_many_claims() -> None:
    """Four devices for a claim that could go elsewhere are four fewer for those who cannot."""
    state = made({"h0": ("h", 6), "h1": ("h", 8), "a0": ("a", 8)})
    foretell(state, {("h", 4): 3, ("a", 1): 2, ("a", 4): 1, ("all", 1): 4})
    assert take(state, "c", "all", 4) == "a0"


def test_devices_that_bring_two_models_together_make_one_market() -> None:
    """`big` was plenty before it could be taken by who wants `fast`: what was there before counts."""
    state = made({"n1": ("fast", 6), "n2": ("big", 8), "n3": ("big", 8)})
    foretell(state, {("big", 1): 3, ("fast", 1): 27})
    assert take(state, "first", "fast") == "n1"
    put(state, "n4", "fast big", 2)
    assert take(state, "second", "fast") == "n4"
    state.drop_slice("n2")
    state.drop_slice("n3")
    assert take(state, "third", "fast") == "n1"


def foretell(state: State, demand: Mapping[tuple[str, int], int]) -> None:
    """Let the state learn what is asked for: (model, count) so many times."""
    for (model, count), times in demand.items():
        for _ in range(times):
            found = allocate(state, Demand((claim("c", asked(model, count)),)), Terms(LEAST))
            assert found.asked is not None
            state.learn(found.asked)


def take(state: State, name: str, model: str, count: int = 1) -> str:
    """Allocate a claim and hold its devices; return the node."""
    found = allocate(state, Demand((claim(name, asked(model, count)),)), Terms(LEAST))
    assert isinstance(found, Decision)
    state.hold(name, found.allocations[0].results)
    return found.node
