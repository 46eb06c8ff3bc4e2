"""Nodes whose devices differ only in allowMultipleAllocations are not one class."""

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.terms import Terms
from apportion.dra.slice import Slice
from tests.allocator.builders import claim, cluster, device, device_request, device_slice

CAPACITY = {"m": {"value": "4", "requestPolicy": {"default": "1", "validRange": {"min": "1"}}}}


def _node(name: str, *, shared: bool) -> Slice:
    more = {"allowMultipleAllocations": True} if shared else {}
    return device_slice(name, name, [device("d", capacity=CAPACITY, **more)])


@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize("serving", ["n1", "n2"])
def test_two_requests_share_only_a_device_that_can_be_shared(strategy: Strategy, serving: str) -> None:
    """One device each on two nodes; on one of them it serves two requests."""
    nodes = "n1", "n2"
    state = cluster(*[_node(name, shared=name == serving) for name in nodes], nodes=nodes)
    demand = Demand((claim("c", device_request("a"), device_request("b")),))
    found = allocate(state, demand, Terms(strategy))
    assert isinstance(found, Decision)
    assert found.node == serving
    assert all(result.share_id for result in found.allocations[0].results)
