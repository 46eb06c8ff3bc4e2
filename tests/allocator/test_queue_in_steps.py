"""Demands of a queue that a ladder draws together are placed together in steps, between which nothing is held."""

import random

import pytest

from apportion.allocator.allocate import decide
from apportion.allocator.closeness.ladder import DEFAULT
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.queue import allocate_queue, queue_steps
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.search.solve import solve
from apportion.allocator.state import State
from apportion.allocator.tentative import Tentative
from apportion.allocator.terms import Terms
from tests.allocator.publishednode import GUARD, PublishedNode, Requested, claim_for, state_of
from tests.allocator.test_ladder_topologies import H100, hold_some, nics
from tests.steps import Steps

CARDS = {"cards": [{**H100, "count": 4}], "nics": nics(4)}
TERMS = Terms(ladder=DEFAULT)
KINDS = [
    [Requested("gpu.apportion.dev", 2), Requested("rdma.apportion.dev", 1)],
    [Requested("mig.apportion.dev", 3, "1g.10gb")],
    [Requested("mig.apportion.dev", 2, "2g.20gb"), Requested("rdma.apportion.dev", 1)],
]


def world(seed: int) -> State:
    """Return nodes some of whose devices are in use."""
    rng = random.Random(seed)  # noqa: S311
    nodes = [PublishedNode(CARDS, f"n{number}") for number in range(3)]
    for node in nodes:
        hold_some(node, rng)
    return state_of(*nodes)


def demands(kinds: list[list[Requested]], number: int) -> list[Demand]:
    """Return demands of these kinds in turn."""
    return [
        Demand((claim_for(*kinds[each % len(kinds)], name=f"c{each}"),), tolerations=(GUARD,))
        for each in range(number)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=["cards and a NIC", "partitions", "partitions and a NIC"])
def test_equal_demands_have_what_one_after_the_other_would_have_beside_the_ones_before(
    kind: list[Requested],
) -> None:
    """The last comes first where all find a place; where not, nobody is served who would not be in the queue's order."""
    terms, all_served, some_refused = Terms(Strategy.PACK, ladder=DEFAULT), 0, 0
    for seed in range(4):
        queue = demands([kind], 2 if seed % 2 else 30)
        state = world(seed)
        with Tentative(state, queue) as expected:
            for number in range(len(queue)):
                decision = decide(state, expected.beside(number), terms)
                if decision is not None:
                    expected.put(number, decision)
            places = {number: each.allocations for number, each in expected.placed.items()}
        if len(places) == len(queue):
            places = {len(queue) - 1 - number: each for number, each in places.items()}
            all_served += 1
        else:
            some_refused += 1
        answers = allocate_queue(world(seed), queue, terms)
        assert places == {
            number: answer.allocations
            for number, answer in enumerate(answers)
            if isinstance(answer, Decision)
        }
    assert all_served
    assert some_refused


@pytest.mark.slow
def test_between_steps_nothing_is_held_and_few_nodes_are_searched_in_one() -> None:
    """Only the node that changed is searched anew: once for its score, and once more for its devices."""
    state = world(0)
    before = dict(state.held())
    steps, more, count = queue_steps(state, demands(KINDS, 9), TERMS), True, 0
    searched = []
    while more:
        with Steps(only=solve) as counted:
            more = next(steps, steps) is not steps
        searched.append(counted.count)
        assert dict(state.held()) == before
        count += more
    assert count >= 9
    assert max(searched[9:]) <= 2, searched


@pytest.mark.slow
def test_demands_for_one_device_are_placed_in_one_step() -> None:
    """There is nothing to draw together, and a search takes less than a thousandth of a second."""
    queue = demands([[Requested("gpu.apportion.dev", 1)]], 5)
    assert not [*queue_steps(world(0), queue, TERMS)]
