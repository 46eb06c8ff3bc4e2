"""Nodes that are searched one by one for devices that a ladder draws together, while devices come into use."""

import random
from collections.abc import Callable

import pytest

from apportion.allocator.allocate import allocate, catching_up, decide
from apportion.allocator.closeness.ladder import DEFAULT
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.search.solve import solve
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from tests.allocator.publishednode import GUARD, PublishedNode, Requested, claim_for, state_of
from tests.allocator.test_ladder_topologies import H100, hold_some, nics
from tests.steps import Steps

TERMS = Terms(ladder=DEFAULT)
CARDS = {"cards": [{**H100, "count": 4}], "nics": nics(4)}
REQUESTS = [
    [Requested("gpu.apportion.dev", 2), Requested("rdma.apportion.dev", 1)],
    [Requested("mig.apportion.dev", 2, "2g.20gb"), Requested("rdma.apportion.dev", 1)],
    [Requested("mig.apportion.dev", 3, "1g.10gb")],
]


ALL_DEMANDS = [
    pytest.mark.parametrize("singled_out", [False, True], ids=["any devices", "some singled out"]),
    pytest.mark.parametrize("allowed", [None, 3], ids=["all nodes", "three nodes"]),
    pytest.mark.parametrize("requests", REQUESTS, ids=["cards", "partitions and a NIC", "partitions"]),
]


def every_demand(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test with all kinds of demands."""
    for mark in ALL_DEMANDS:
        test = mark(test)
    return test


def drawn(
    rng: random.Random, requests: list[Requested], allowed: int | None, *, singled_out: bool
) -> tuple[list[PublishedNode], State, Demand, dict[DeviceId, int]]:
    """Return nodes some of whose devices are in use, a demand, and the devices that it prefers.

    `singled_out`: it prefers some and excludes some.
    """
    nodes = [PublishedNode(CARDS, f"n{number}") for number in range(5)]
    for node in nodes:
        hold_some(node, rng)
    names = None if allowed is None else frozenset(node.name for node in nodes[:allowed])
    devices = [device.id for node in nodes for device in rng.sample(node.devices, 12)] if singled_out else []
    excluded = frozenset(devices[::3])
    demand = Demand((claim_for(*requests),), nodes=names, excluded=excluded, tolerations=(GUARD,))
    return nodes, state_of(*nodes), demand, dict.fromkeys(devices[1::3], 1)


@pytest.mark.slow
@every_demand
def test_what_was_found_before_a_change_is_not_believed_after_it(
    requests: list[Requested], allowed: int | None, *, singled_out: bool
) -> None:
    """The decision is that of a search of all nodes as they are then."""
    served = 0
    for seed in range(6):
        rng = random.Random(seed)  # noqa: S311
        nodes, state, demand, prefer = drawn(rng, requests, allowed, singled_out=singled_out)
        searched = 0
        for searched, _ in enumerate(catching_up(state, demand, TERMS, prefer=prefer), 1):
            node = rng.choice(nodes)
            free = [device for device in node.devices if device.id not in node.held and node.fits([device])]
            if free and rng.random() < 0.7:
                device = rng.choice(free)
                node.take(device)
                state.hold(f"later/{searched}", [DeviceResult("r", device.id)])
        assert searched
        found = decide(state, demand, TERMS, prefer=prefer)
        expected = allocate(state, demand, TERMS, prefer=prefer, reuse=False)
        if not isinstance(expected, Decision):
            assert found is None
            continue
        served += 1
        assert found is not None
        assert (found.node, found.allocations) == (expected.node, expected.allocations)
    assert served > 1


@pytest.mark.slow
@every_demand
def test_a_decision_finds_what_was_searched_beforehand(
    requests: list[Requested], allowed: int | None, *, singled_out: bool
) -> None:
    """One node in a step, and it searches none."""
    for seed in range(2):
        _, state, demand, prefer = drawn(random.Random(seed), requests, allowed, singled_out=singled_out)  # noqa: S311
        steps, more = catching_up(state, demand, TERMS, prefer=prefer), True
        while more:
            with Steps(only=solve) as counted:
                more = next(steps, steps) is not steps
            assert counted.count <= 1
        with Steps(only=solve) as counted:
            decide(state, demand, TERMS, prefer=prefer)
        assert counted.count == 0


def test_one_device_is_not_searched_for_beforehand() -> None:
    """There is nothing to draw together."""
    state = state_of(PublishedNode(CARDS))
    demand = Demand((claim_for(Requested("gpu.apportion.dev", 1)),), tolerations=(GUARD,))
    assert not [*catching_up(state, demand, TERMS)]


@pytest.mark.slow
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
