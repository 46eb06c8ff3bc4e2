"""A state that nobody has any more leaves no memory behind."""

import gc
import weakref

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from tests.allocator.publishednode import GUARD, PublishedNode, Requested, claim_for, state_of


def used() -> State:
    """Return a state that has served and refused claims."""
    state = state_of(PublishedNode({"cards": [{"model": "H100-80GB", "count": 1}]}))
    for number in range(4):
        claim = claim_for(Requested("mig.apportion.dev", 1, "3g.40gb"), name=f"c{number}")
        found = allocate(state, Demand((claim,), tolerations=(GUARD,)), Terms(Strategy.LEAST_FRAGMENTATION))
        assert found.asked is not None
        state.learn(found.asked)
        if isinstance(found, Decision):
            state.hold(claim.uid, found.allocations[0].results)
    assert len(state.held()) == 2
    return state


@pytest.mark.slow
def test_a_state_that_nobody_has_is_gone_at_once() -> None:
    """Plans are made on states of their own; as a cycle each would stay until a full garbage collection, which the operator puts off as long as claims wait."""
    gc.collect()
    gc.disable()
    try:
        ended = weakref.ref(used())
        assert ended() is None
    finally:
        gc.enable()
