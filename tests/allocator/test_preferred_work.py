"""Idle partitions are preferred, and a cluster may have thousands of them: each costs the same, however many there are."""

import pytest

from apportion.allocator.allocate import decide
from apportion.allocator.demand import Demand
from tests.allocator.publishednode import GUARD, PublishedNode, Requested, claim_for, state_of
from tests.steps import steps

FEW, MANY = 20, 80


def decided(count: int) -> int:
    """Return how many functions a decision calls that prefers a device on each of so many nodes, which were searched before."""
    nodes = [PublishedNode({"cards": [{"model": "H100-80GB", "count": 1}]}, f"n{n}") for n in range(count)]
    state = state_of(*nodes)
    idle = {next(each.id for each in node.devices if "1g10gb" in each.id.name): 1 for node in nodes}
    demand = Demand((claim_for(Requested("mig.apportion.dev", 1, "1g.10gb")),), tolerations=(GUARD,))
    assert decide(state, demand, prefer=idle) is not None
    return steps(lambda: decide(state, demand, prefer=idle))


@pytest.mark.slow
def test_a_decision_looks_at_each_preferred_device_once() -> None:
    """Not at all of them on each of their nodes."""
    assert decided(MANY) < MANY / FEW * decided(FEW)
