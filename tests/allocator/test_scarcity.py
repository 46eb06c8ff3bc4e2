"""LeastFragmentation keeps the devices of a model for claims that can use no other."""

from collections.abc import Mapping

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from tests.allocator.builders import claim, cluster_of_models, model_request, put_model_node

LEAST = Strategy.LEAST_FRAGMENTATION


def test_a_flexible_claim_leaves_contended_devices_to_claims_that_need_them() -> None:
    """A claim that matches every device does not take the last of a contended model."""
    state = cluster_of_models({"n1": ("special", 4), "n2": ("any", 4)})
    learn(state, {("special", 1): 8, ("all", 1): 8})
    for number in range(3):
        assert take(state, f"any-{number}", "all") == "n2"


def test_scarcity_is_the_expected_demand_relative_to_the_devices_of_the_market() -> None:
    """Of ten claims six match `big` only, one `small` only: of 15 and 5 devices left, the 15 are scarcer.

    Twelve of the twenty devices will go to claims for `big` only, two to claims for `small` only: that is one standard
    deviation above need for `big`, nearly two for `small`.
    """
    rows = {f"n{number:02}": ("big" if number < 15 else "small", 1) for number in range(20)}
    state = cluster_of_models(rows)
    learn(state, {("big", 1): 12, ("small", 1): 2, ("all", 1): 6})
    assert rows[take(state, "c", "all")][0] == "small"


@pytest.mark.parametrize(("count", "node"), [(1, "h0"), (4, "a0")])
def test_one_scarce_device_costs_less_than_a_whole_node_and_four_cost_more(count: int, node: str) -> None:
    """Devices of `h` are short: one costs less than a whole node of the other model, four cost more."""
    state = cluster_of_models({"h0": ("h", 6), "a0": ("a", 8)})
    learn(state, {("h", 4): 4, ("a", 4): 3, ("all", 1): 1, ("all", 4): 3})
    assert take(state, "c", "all", count) == node


def test_contention_counts_devices_and_not_claims() -> None:
    """A claim for four devices takes four from the claims that can use no other."""
    state = cluster_of_models({"h0": ("h", 6), "h1": ("h", 8), "a0": ("a", 8)})
    learn(state, {("h", 4): 3, ("a", 1): 2, ("a", 4): 1, ("all", 1): 4})
    assert take(state, "c", "all", 4) == "a0"


def test_devices_that_match_two_models_join_their_markets() -> None:
    """`big` was plentiful before claims for `fast` could use it; devices known before the change count."""
    state = cluster_of_models({"n1": ("fast", 6), "n2": ("big", 8), "n3": ("big", 8)})
    learn(state, {("big", 1): 3, ("fast", 1): 27})
    assert take(state, "first", "fast") == "n1"
    put_model_node(state, "n4", "fast big", 2)
    assert take(state, "second", "fast") == "n4"
    state.drop_slice("n2")
    state.drop_slice("n3")
    assert take(state, "third", "fast") == "n1"


def learn(state: State, demand: Mapping[tuple[str, int], int]) -> None:
    """Learn a demand: number of claims by (model, count)."""
    for (model, count), times in demand.items():
        for _ in range(times):
            found = allocate(state, Demand((claim("c", model_request(model, count)),)), Terms(LEAST))
            assert found.asked is not None
            state.learn(found.asked)


def take(state: State, name: str, model: str, count: int = 1) -> str:
    """Allocate a claim and hold its devices; return the node."""
    found = allocate(state, Demand((claim(name, model_request(model, count)),)), Terms(LEAST))
    assert isinstance(found, Decision)
    state.hold(name, found.allocations[0].results)
    return found.node
