"""Claims whose search takes exponential time are decided, or refused as what was given up, in a time that does not grow with requests and nodes."""

import time

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.terms import Terms
from tests.allocator.builders import cluster
from tests.allocator.hardsearches import distinct_claim, easy_node, hard_node, preferring_claim

MANY = 24


@pytest.mark.parametrize("strategy", [Strategy.PACK, Strategy.LEAST_FRAGMENTATION])
def test_earlier_alternatives_are_searched_within_one_budget(strategy: Strategy) -> None:
    """Each of the later requests has an alternative that is hard to rule out: that took 20,000 steps for each of them, half a minute."""
    state = cluster(hard_node("n1", 1))
    demand = Demand((preferring_claim(32),))
    began = time.process_time()
    found = allocate(state, demand, Terms(strategy))
    assert time.process_time() - began < 10
    assert isinstance(found, Decision)
    labels = [result.request for result in found.allocations[0].results]
    assert sum(label.endswith("/wanted") for label in labels) >= 10


@pytest.mark.parametrize("strategy", [Strategy.FIRST_FIT, Strategy.PACK, Strategy.LEAST_FRAGMENTATION])
def test_nodes_on_which_a_search_is_given_up_share_a_budget(strategy: Strategy) -> None:
    """The refusal says so; a node on which the search is simple is found all the same."""
    names = [f"n{number:02d}" for number in range(MANY)]
    state = cluster(*(hard_node(name, 0, alone=number) for number, name in enumerate(names)), nodes=names)
    demand = Demand((distinct_claim(20),))
    began = time.process_time()
    found = allocate(state, demand, Terms(strategy))
    assert time.process_time() - began < 6
    assert isinstance(found, Refusal)
    assert found.verdict == "budget"
    state.put_node("z", {})
    state.put_slice(easy_node("z"))
    served = allocate(state, demand, Terms(strategy))
    assert isinstance(served, Decision)
    assert served.node == "z"
