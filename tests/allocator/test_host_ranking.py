"""Where many nodes are short of cpu or memory, a claim costs a look at the nodes that changed."""

import random

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.facts.host import HostDemand, HostResources
from apportion.allocator.hostcomparison import HostComparison
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from tests.allocator.builders import amounts, claim, cluster, device, device_request, device_slice
from tests.steps import Steps

LEAST = Terms(Strategy.LEAST_FRAGMENTATION)
GIB = 1 << 30
ASKED = HostResources(4_000, GIB)


def fleet(count: int) -> tuple[State, dict[str, HostResources]]:
    """Return nodes with four GPUs and cpu for fewer than the demand wants beside them."""
    left = {f"n{number:03d}": HostResources(10_000 + number, 64 * GIB) for number in range(count)}
    state = cluster(
        *(device_slice(name, name, [device(f"gpu-{index}") for index in range(4)]) for name in left),
        nodes=tuple(left),
    )
    return state, left


def ask(state: State, left: dict[str, HostResources], name: str) -> Decision:
    """Place a pod with one GPU, and bind it."""
    for node, here in left.items():
        state.put_host(node, here)
    nodes = frozenset(node for node, here in left.items() if here.holds(ASKED))
    found = allocate(state, Demand((claim(name, device_request()),), nodes, host=HostDemand(ASKED)), LEAST)
    assert isinstance(found, Decision)
    assert found.asked is not None
    state.learn(found.asked, ASKED)
    state.hold(name, found.allocations[0].results)
    left[found.node] = left[found.node].less(ASKED)
    return found


@pytest.mark.slow
def test_a_claim_rates_the_nodes_whose_devices_cpu_or_memory_changed() -> None:
    """Not all nodes that are short: of 200 nodes a claim changes one."""
    state, left = fleet(200)
    for number in range(40):
        ask(state, left, f"c{number}")
    with Steps(HostComparison.score) as rated:
        for number in range(40, 60):
            ask(state, left, f"c{number}")
    assert 0 < rated.count <= 20 * 3


def test_a_node_without_enough_cpu_is_still_chosen_if_the_caller_allows_no_other() -> None:
    """Whether pods fit is the caller's decision (`Demand.nodes`)."""
    state, left = fleet(40)
    for number in range(8):
        ask(state, left, f"c{number}")
    state.put_host("n005", HostResources(1_000, GIB))
    demand = Demand((claim("x", device_request()),), frozenset(["n005"]), host=HostDemand(ASKED))
    found = allocate(state, demand, LEAST)
    assert isinstance(found, Decision)
    assert found.node == "n005"


def test_amounts_that_one_demand_takes_do_not_count_for_the_next() -> None:
    """A demand knows of cpu promised to others on a node; a later demand, for which it is free again, must not."""
    state, left = fleet(40)
    for number in range(8):
        ask(state, left, f"c{number}")
    for node in left:
        left[node] = HostResources(left[node].cpu + 1, left[node].memory)
        state.put_host(node, left[node])
    promised = {"n005": HostResources(9_000, GIB)}
    wanted = (claim("x", device_request()),)
    allocate(state, Demand(wanted, frozenset(left), host=HostDemand(ASKED, promised)), LEAST)
    for allowed in (frozenset(left), frozenset(sorted(left)[4:])):
        demand = Demand(wanted, allowed, host=HostDemand(ASKED))
        assert allocate(state, demand, LEAST) == allocate(state, demand, LEAST, reuse=False)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_the_ranking_chooses_the_node_that_a_comparison_of_all_nodes_chooses(seed: int) -> None:
    """Shares and several whole devices: nodes that lose a place for lack of devices, cpu or memory cost more than they seem to."""
    rng = random.Random(seed)  # noqa: S311 - a test that can be repeated
    left = {f"n{number:03d}": HostResources(rng.randint(8, 32) * 1000, 64 * GIB) for number in range(24)}
    card = {"allowMultipleAllocations": True, "capacity": amounts(units=4)}
    rows = [device(f"gpu-{index}", **card) for index in range(4)]
    state = cluster(*(device_slice(name, name, rows) for name in left), nodes=tuple(left))
    shapes = [
        (
            device_request(count=count, capacity={"requests": {"units": str(units)}}),
            HostResources(cores * 1000, GIB),
        )
        for count, units, cores in ((1, 1, 1), (1, 2, 3), (1, 4, 4), (2, 4, 8), (4, 4, 14))
    ]
    for _ in range(20):
        for request, asked in shapes:
            found = allocate(state, Demand((claim("learnt", request),)), LEAST)
            assert found.asked is not None
            state.learn(found.asked, asked)
    placed = 0
    for number in range(90):
        request, asked = rng.choice(shapes)
        for node, here in left.items():
            state.put_host(node, here)
        nodes = frozenset(node for node, here in left.items() if here.holds(asked))
        demand = Demand((claim(f"c{number}", request),), nodes, host=HostDemand(asked))
        answer, reference = (allocate(state, demand, LEAST, reuse=reuse) for reuse in (True, False))
        assert type(answer) is type(reference)
        if isinstance(answer, Decision) and isinstance(reference, Decision):
            assert (answer.node, answer.allocations) == (reference.node, reference.allocations), number
            state.hold(f"c{number}", answer.allocations[0].results)
            left[answer.node] = left[answer.node].less(asked)
            placed += 1
    assert placed > 40
