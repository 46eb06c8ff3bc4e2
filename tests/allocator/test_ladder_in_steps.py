"""Nodes that are searched one by one for devices that a ladder draws together, while devices come into use."""

import random

import pytest

from apportion.allocator.allocate import allocate, catching_up, decide
from apportion.allocator.closeness.ladder import DEFAULT
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.terms import Terms
from apportion.dra.allocation import DeviceResult
from tests.allocator.publishednode import GUARD, PublishedNode, Requested, claim_for, state_of
from tests.allocator.test_ladder_topologies import H100, hold_some, nics

TERMS = Terms(ladder=DEFAULT)
CARDS = {"cards": [{**H100, "count": 4}], "nics": nics(4)}
REQUESTS = [
    [Requested("gpu.apportion.dev", 2), Requested("rdma.apportion.dev", 1)],
    [Requested("mig.apportion.dev", 2, "2g.20gb"), Requested("rdma.apportion.dev", 1)],
    [Requested("mig.apportion.dev", 3, "1g.10gb")],
]


@pytest.mark.parametrize("allowed", [None, 3], ids=["all nodes", "three nodes"])
@pytest.mark.parametrize("requests", REQUESTS, ids=["cards", "partitions and a NIC", "partitions"])
def test_what_was_found_before_a_change_is_not_believed_after_it(
    requests: list[Requested], allowed: int | None
) -> None:
    """The decision is that of a search of all nodes as they are then."""
    served = 0
    for seed in range(12):
        rng = random.Random(seed)  # noqa: S311
        nodes = [PublishedNode(CARDS, f"n{number}") for number in range(5)]
        for node in nodes:
            hold_some(node, rng)
        state = state_of(*nodes)
        names = None if allowed is None else frozenset(node.name for node in nodes[:allowed])
        demand = Demand((claim_for(*requests),), nodes=names, tolerations=(GUARD,))
        searched = 0
        for searched, _ in enumerate(catching_up(state, demand, TERMS), 1):
            node = rng.choice(nodes)
            free = [device for device in node.devices if device.id not in node.held and node.fits([device])]
            if free and rng.random() < 0.7:
                device = rng.choice(free)
                node.take(device)
                state.hold(f"later/{searched}", [DeviceResult("r", device.id)])
        assert searched
        found, expected = decide(state, demand, TERMS), allocate(state, demand, TERMS, reuse=False)
        if not isinstance(expected, Decision):
            assert found is None
            continue
        served += 1
        assert found is not None
        assert (found.node, found.allocations) == (expected.node, expected.allocations)
    assert served > 4


def test_one_device_is_not_searched_for_beforehand() -> None:
    """There is nothing to draw together."""
    state = state_of(PublishedNode(CARDS))
    demand = Demand((claim_for(Requested("gpu.apportion.dev", 1)),), tolerations=(GUARD,))
    assert not [*catching_up(state, demand, TERMS)]


def test_an_outcome_that_nodes_share_is_that_of_a_node_which_has_not_changed() -> None:
    """Of nodes with the same card in use the first ones get it back before they are searched: the others have not."""
    nodes = [PublishedNode({"cards": [{**H100, "count": 4}]}, f"n{number:02}") for number in range(52)]
    state = state_of(*nodes)
    for number, node in enumerate(nodes):
        device = next(each.id for each in node.devices if each.id.name == f"gpu-{number % 2}")
        state.hold(node.name, [DeviceResult("r", device)])
    names = frozenset(node.name for node in nodes[2:])
    demand = Demand((claim_for(Requested("gpu.apportion.dev", 3)),), nodes=names, tolerations=(GUARD,))
    steps = catching_up(state, demand, TERMS)
    next(steps)
    for node in nodes[:2]:
        state.release(node.name)
    assert len([*steps]) > 0
    found, expected = decide(state, demand, TERMS), allocate(state, demand, TERMS, reuse=False)
    assert found is not None
    assert isinstance(expected, Decision)
    assert (found.node, found.allocations) == (expected.node, expected.allocations)
