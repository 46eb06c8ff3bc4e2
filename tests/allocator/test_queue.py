"""Claims placed together, against an exact solver."""

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
from tests.allocator.builders import FOUR, asked, claim, cluster, instance, made, split, want


@pytest.mark.parametrize("seed", range(3))
def test_a_batch_leaves_no_trace_and_gives_the_same_answer_again(seed: int) -> None:
    """What was tried out on the state is taken back."""
    state, demands = instance(seed)
    first = allocate_queue(state, demands)
    assert all(
        not state.holders(view.id_of(i))
        for view in map(state.view, state.names())
        for i in range(len(view.devices))
    )
    again = allocate_queue(state, demands)
    assert [getattr(answer, "allocations", None) for answer in first] == [
        getattr(answer, "allocations", None) for answer in again
    ]


def test_a_large_claim_that_comes_last_still_finds_room() -> None:
    """One by one, two small claims could have taken a chip each; together they leave one whole."""
    state = cluster(*split("n1", 2, FOUR))
    demands = [
        Demand((claim(name, want(kind=kind)),)) for name, kind in (("a", "one"), ("b", "two"), ("c", "four"))
    ]
    assert all(isinstance(answer, Decision) for answer in allocate_queue(state, demands))


def test_those_who_can_use_little_choose_first() -> None:
    """The largest could go to either model, and would take what the smallest needs, if it chose first."""
    state = made({"a0": ("a", 6), "b0": ("b", 4)})
    demands = [
        Demand((claim(model, asked(model, count)),)) for model, count in (("all", 4), ("a", 2), ("b", 1))
    ]
    answers = allocate_queue(state, demands)
    assert [getattr(answer, "node", None) for answer in answers] == ["a0", "a0", "b0"]


def test_first_fit_is_never_reordered() -> None:
    """It is there to be compared with upstream, who decides one by one; the default strategy serves all of these."""
    state = made({"a0": ("a", 4), "b0": ("b", 4)})
    demands = [Demand((claim(model, asked(model, 3)),)) for model in ("all", "a")]
    answers = {strategy: allocate_queue(state, demands, Terms(strategy)) for strategy in Strategy}
    nodes = {
        strategy.value: [getattr(answer, "node", None) for answer in found]
        for strategy, found in answers.items()
    }
    assert nodes["FirstFit"] == ["a0", None]
    assert nodes["LeastFragmentation"] == nodes["Pack"] == ["b0", "a0"]


def test_in_a_queue_one_is_not_refused_for_the_sake_of_two() -> None:
    """The claim that came first is served, although refusing it would serve two others."""
    state = made({"a0": ("a", 8), "b0": ("b", 2)})
    wishes = (("all", 8), ("a", 4), ("a", 4))
    demands = [Demand((claim(f"c{n}", asked(*wish)),)) for n, wish in enumerate(wishes)]
    answers = allocate_queue(state, demands)
    assert [isinstance(answer, Decision) for answer in answers] == [True, False, False]


@given(
    st.dictionaries(
        st.sampled_from(["n0", "n1", "n2", "n3"]),
        st.tuples(st.sampled_from(["a", "b"]), st.integers(2, 8)),
        min_size=1,
    ),
    st.lists(st.tuples(st.sampled_from(["a", "b", "all"]), st.sampled_from([1, 2, 3, 4, 8])), max_size=9),
    st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_in_a_queue_nobody_loses_by_being_placed_together(
    rows: dict[str, tuple[str, int]],
    wishes: list[tuple[str, int]],
    learnt: bool,  # noqa: FBT001 - drawn
) -> None:
    """Who would be served one by one, in the queue's order, is served; nobody gets what somebody else has.

    `learnt`: others came before, and what they asked for is what room is kept for.
    """
    state = made(rows)
    for model in ("all", "b", "b", "a") if learnt else ():
        came = allocate(state, Demand((claim("former", asked(model, 2)),)))
        assert came.asked is not None
        state.learn(came.asked)
    demands = [Demand((claim(f"c{n}", asked(*wish)),)) for n, wish in enumerate(wishes)]
    answers = allocate_queue(state, demands)
    together = {n for n, answer in enumerate(answers) if isinstance(answer, Decision)}
    given_ = [result.device for n in together for result in answers[n].allocations[0].results]  # type: ignore[union-attr] # decisions
    assert len(given_) == len(set(given_))
    assert not any(state.holders(device) for device in given_)
    meanings = Counter(answer.asked for answer in answers if answer.asked is not None)
    batch = tuple(row for meaning, count in meanings.items() for row in entries(meaning, count))
    mix = None if learnt else batch
    for number, demand in enumerate(demands):
        found = allocate(state, demand, Terms(Strategy.LEAST_FRAGMENTATION, mix=mix))
        if isinstance(found, Decision):
            state.hold(f"c{number}", found.allocations[0].results)
            assert number in together
