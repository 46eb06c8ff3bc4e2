"""What searches that were given up cost later ones, and when that ends."""

from collections.abc import Sequence

import pytest

from apportion.allocator.allocate import allocate, catching_up, serving
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.search.partial import PartialSolution
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.search.searchbudget import STEPS
from apportion.allocator.state import State
from apportion.allocator.terms import DEFAULT_TERMS, Terms
from tests.allocator.builders import claim, cluster, device_request
from tests.allocator.hardsearches import distinct_claim, hard_node
from tests.steps import Steps

DEMAND = Demand((distinct_claim(14),))
GOOD = hard_node("good", 7)
HARD = [100, 108, 113, 120]
"""Seeds of nodes of which none has room for the demand, so that all steps are used up."""
BOTH = [Strategy.FIRST_FIT, Strategy.LEAST_FRAGMENTATION]
"""Which takes the first solution, and which asks what it costs."""


def hard(seeds: Sequence[int] = HARD) -> State:
    """Return nodes on which the search is given up."""
    names = [f"a{seed}" for seed in seeds]
    return cluster(*(hard_node(f"a{seed}", seed) for seed in seeds), nodes=names)


def gone(state: State, seeds: Sequence[int] = HARD) -> None:
    """Remove these nodes."""
    for seed in seeds:
        state.drop_slice(f"a{seed}")
        state.drop_node(f"a{seed}")


def comes(state: State) -> None:
    """Show the node that serves the demand after a search of some thousand steps."""
    state.put_node("good", {})
    state.put_slice(GOOD)


def decisions(state: State, strategy: Strategy, most: int) -> int:
    """Return after how many decisions the demand is served; the cluster changes before each."""
    for number in range(1, most + 1):
        state.put_node("other", {"number": str(number)})
        if isinstance(allocate(state, DEMAND, Terms(strategy)), Decision):
            return number
    raise AssertionError("it is never served")


@pytest.mark.slow
@pytest.mark.parametrize("strategy", BOTH)
def test_searches_given_up_on_nodes_that_are_gone_are_forgotten(strategy: Strategy) -> None:
    """Every later search for such a claim had a few hundred steps, as long as its ranking was kept."""
    assert isinstance(allocate(cluster(GOOD, nodes=("good",)), DEMAND, Terms(strategy)), Decision)
    state = hard(())
    for seed in HARD:
        state.put_node(f"a{seed}", {})
        state.put_slice(hard_node(f"a{seed}", seed))
        assert isinstance(allocate(state, DEMAND, Terms(strategy)), Refusal)
        gone(state, [seed])
    comes(state)
    assert decisions(state, strategy, 4)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", BOTH)
def test_a_node_whose_search_was_cut_short_is_searched_once_more(strategy: Strategy) -> None:
    """It had the steps that the others had left, and stayed given up, also without them and under other prices."""
    state = hard()
    assert isinstance(allocate(state, DEMAND, Terms(strategy)), Refusal)
    comes(state)
    first = allocate(state, DEMAND, Terms(strategy))
    assert isinstance(first, Refusal)
    assert first.verdict == "budget"
    assert allocate(state, DEMAND, Terms(strategy)) == first
    gone(state)
    other = state.queries.of((claim("x", device_request()),), state.classes, state.features)
    for _ in range(40):
        state.learn(other)
    assert decisions(state, strategy, 4)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [Strategy.FIRST_FIT, Strategy.PACK])
def test_a_node_whose_search_was_cut_short_is_found_beside_hard_ones(strategy: Strategy) -> None:
    """They stay; a search with all steps finds out that each of them is to be given up, one in a decision."""
    state = hard()
    comes(state)
    assert decisions(state, strategy, 12)


@pytest.mark.slow
def test_nodes_that_are_searched_once_more_take_the_steps_of_two_in_a_decision() -> None:
    """However many were cut short; and none is searched with all steps a second time."""
    seeds, terms = (200, 204, 205), Terms(Strategy.LEAST_FRAGMENTATION)
    state, every = hard(seeds), 0
    for number in range(10):
        state.put_node("other", {"number": str(number)})
        with Steps(only=PartialSolution.take) as tried:
            for _ in catching_up(state, DEMAND, terms):
                pass
        assert tried.count < 2 * STEPS
        every += tried.count
        allocate(state, DEMAND, terms)
    assert every < (len(seeds) + 2) * STEPS


@pytest.mark.slow
def test_searches_given_up_are_forgotten_where_nodes_are_asked_for_that_serve() -> None:
    """Of a claim that kube-scheduler allocates; its pod waited for ever, also after the hard nodes were gone."""
    state = hard()
    assert not serving(state, DEMAND)
    comes(state)
    gone(state)
    for number in range(4):
        state.put_node("other", {"number": str(number)})
        for _ in catching_up(state, DEMAND, DEFAULT_TERMS):
            pass
        if serving(state, DEMAND) == {"good"}:
            return
    raise AssertionError("it is never served")
