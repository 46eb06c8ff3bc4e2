"""A request names a capacity as the device does; nodes whose devices name it otherwise are not equal."""

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.terms import Terms
from tests.allocator.builders import GPU, claim, cluster, device, device_request, device_slice


@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize("name", ["m", f"{GPU}/m"])
def test_the_node_is_chosen_that_has_the_capacity_of_this_name(strategy: Strategy, name: str) -> None:
    """As a device alone is served, or not; a driver that is upgraded node by node may begin to qualify its names."""
    names = ("m", f"{GPU}/m")
    pieces = [
        device_slice(f"n{number}", f"n{number}", [device("d", capacity={own: {"value": "4"}})])
        for number, own in enumerate(names)
    ]
    demand = Demand((claim("c", device_request(capacity={"requests": {name: "2"}})),))
    alone = [
        isinstance(allocate(cluster(piece, nodes=(piece.name,)), demand, Terms(strategy)), Decision)
        for piece in pieces
    ]
    assert alone == [own == name for own in names]
    found = allocate(cluster(*pieces, nodes=("n0", "n1")), demand, Terms(strategy))
    assert isinstance(found, Decision), found.verdict
    assert found.node == f"n{names.index(name)}"
