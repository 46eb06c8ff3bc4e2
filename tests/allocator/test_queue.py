"""`allocate_queue`: demands that wait together are planned together."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.pricing.demandmix import entries
from apportion.allocator.queue import allocate_queue
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.terms import Terms
from tests.allocator.builders import (
    FOUR_ENGINES,
    claim,
    cluster,
    cluster_of_models,
    device_request,
    model_request,
    packing_instance,
    partitionable_slices,
)


@pytest.mark.parametrize("seed", range(3))
def test_planning_a_queue_leaves_the_state_unchanged(seed: int) -> None:
    """Tentative decisions are released from the state."""
    state, demands = packing_instance(seed)
    first = allocate_queue(state, demands)
    assert all(
        not state.holders(view.id_of(i))
        for view in map(state.view, state.names())
        for i in range(len(view.devices))
    )
    second = allocate_queue(state, demands)
    assert [getattr(answer, "allocations", None) for answer in first] == [
        getattr(answer, "allocations", None) for answer in second
    ]


def test_a_large_claim_at_the_end_of_the_queue_is_served() -> None:
    """One by one, two small claims could take one chip each; planned together they share one."""
    state = cluster(*partitionable_slices("n1", 2, FOUR_ENGINES))
    demands = [
        Demand((claim(name, device_request(kind=kind)),))
        for name, kind in (("a", "one"), ("b", "two"), ("c", "four"))
    ]
    assert all(isinstance(answer, Decision) for answer in allocate_queue(state, demands))


def test_demands_with_the_fewest_usable_devices_are_placed_first() -> None:
    """The largest demand can use either model, and would take the devices of the smallest if it came first."""
    state = cluster_of_models({"a0": ("a", 6), "b0": ("b", 4)})
    demands = [
        Demand((claim(model, model_request(model, count)),))
        for model, count in (("all", 4), ("a", 2), ("b", 1))
    ]
    answers = allocate_queue(state, demands)
    assert [getattr(answer, "node", None) for answer in answers] == ["a0", "a0", "b0"]


def test_first_fit_keeps_the_order_of_the_queue() -> None:
    """FirstFit is the comparison with upstream, which decides one by one; other strategies serve all demands."""
    state = cluster_of_models({"a0": ("a", 4), "b0": ("b", 4)})
    demands = [Demand((claim(model, model_request(model, 3)),)) for model in ("all", "a")]
    answers = {strategy: allocate_queue(state, demands, Terms(strategy)) for strategy in Strategy}
    nodes = {
        strategy.value: [getattr(answer, "node", None) for answer in found]
        for strategy, found in answers.items()
    }
    assert nodes["FirstFit"] == ["a0", None]
    assert nodes["LeastFragmentation"] == nodes["Pack"] == ["b0", "a0"]


def test_an_earlier_claim_is_not_refused_to_serve_two_later_ones() -> None:
    """The first claim is served, although its refusal would serve two others."""
    state = cluster_of_models({"a0": ("a", 8), "b0": ("b", 2)})
    requested = (("all", 8), ("a", 4), ("a", 4))
    demands = [Demand((claim(f"c{n}", model_request(*one)),)) for n, one in enumerate(requested)]
    answers = allocate_queue(state, demands)
    assert [isinstance(answer, Decision) for answer in answers] == [True, False, False]


@pytest.mark.slow
@given(
    st.dictionaries(
        st.sampled_from(["n0", "n1", "n2", "n3"]),
        st.tuples(st.sampled_from(["a", "b"]), st.integers(2, 8)),
        min_size=1,
    ),
    st.lists(st.tuples(st.sampled_from(["a", "b", "all"]), st.sampled_from([1, 2, 3, 4, 8])), max_size=9),
    st.booleans(),
)
@settings(max_examples=80)
def test_every_claim_that_is_served_one_by_one_is_served_by_the_plan(
    rows: dict[str, tuple[str, int]],
    requested: list[tuple[str, int]],
    learnt: bool,  # noqa: FBT001 - drawn
) -> None:
    """A claim that is served one by one, in the queue's order, is served by the plan; no device is allocated twice.

    `learnt`: the state has learnt the demand of former claims.
    """
    state = cluster_of_models(rows)
    for model in ("all", "b", "b", "a") if learnt else ():
        came = allocate(state, Demand((claim("former", model_request(model, 2)),)))
        assert came.asked is not None
        state.learn(came.asked)
    demands = [Demand((claim(f"c{n}", model_request(*one)),)) for n, one in enumerate(requested)]
    answers = allocate_queue(state, demands)
    together = {n for n, answer in enumerate(answers) if isinstance(answer, Decision)}
    given_ = [result.device for n in together for result in answers[n].allocations[0].results]  # type: ignore[union-attr] # decisions
    assert len(given_) == len(set(given_))
    assert not any(state.holders(device) for device in given_)
    queries = Counter(answer.asked for answer in answers if answer.asked is not None)
    batch = tuple(row for query, count in queries.items() for row in entries(query, count))
    mix = None if learnt else batch
    for number, demand in enumerate(demands):
        found = allocate(state, demand, Terms(Strategy.LEAST_FRAGMENTATION, mix=mix))
        if isinstance(found, Decision):
            state.hold(f"c{number}", found.allocations[0].results)
            assert number in together


@settings(deadline=None)
@given(
    free=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    demands=st.integers(1, 12),
    size=st.integers(1, 3),
)
def test_of_demands_that_are_alike_as_many_are_served_one_by_one(
    free: list[int], demands: int, size: int
) -> None:
    """So a queue of nothing else needs no plan."""
    state = cluster_of_models({f"n{number}": ("a", count) for number, count in enumerate(free)})
    asked = [Demand((claim(f"c{number}", model_request("a", size)),)) for number in range(demands)]
    planned = allocate_queue(state, asked)
    served = 0
    for number, demand in enumerate(asked):
        answer = allocate(state, demand)
        if isinstance(answer, Decision):
            served += 1
            state.hold(f"held-{number}", answer.allocations[0].results)
    assert sum(isinstance(answer, Decision) for answer in planned) == served
