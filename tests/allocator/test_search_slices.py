"""A search that takes long is made in slices, between which others run; what it finds is what it would find at once."""

from itertools import count

import pytest

from apportion.allocator.allocate import allocate, catching_up, decide
from apportion.allocator.closeness.ladder import DEFAULT, Ladder
from apportion.allocator.demand import Demand
from apportion.allocator.nodeoutcomes import precompute
from apportion.allocator.preparation import Preparation, is_costly
from apportion.allocator.search.partial import PartialSolution
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from tests.allocator.builders import (
    GPU,
    A,
    amounts,
    claim,
    cluster,
    device,
    device_at,
    device_request,
    device_slice,
)
from tests.allocator.hardsearches import distinct_claim, easy_node, hard_node, preferring_claim
from tests.allocator.test_explanation_work import many_requests, unlike_nodes
from tests.steps import Steps, steps

MOST_CALLS = 200_000
"""Functions that are called in one step: some hundredths of a second. At once a search calls millions."""
_OTHER = [{"cel": {"expression": f'{A}.?kind.orValue("") == "other"'}}]
EVERY_OTHER = claim("all", device_request("all", "", allocationMode="All", selectors=_OTHER))
DEMANDS = {
    "requests that differ in three attributes": Demand((distinct_claim(24),)),
    "alternatives": Demand((preferring_claim(32),)),
    "beside all devices of a kind": Demand((EVERY_OTHER, distinct_claim(24))),
    "on a named node": Demand((EVERY_OTHER, distinct_claim(24)), nodes=frozenset(["n1"])),
}
TERMS = {
    "first fit": Terms(Strategy.FIRST_FIT),
    "pack": Terms(Strategy.PACK),
    "ladder": Terms(ladder=DEFAULT),
}


def hard_cluster(nodes: int = 1) -> State:
    """Return nodes of 112 devices that differ pairwise in at most some of three attributes."""
    names = [f"n{number}" for number in range(1, nodes + 1)]
    return cluster(
        *(hard_node(name, number, 112, alone=1) for number, name in enumerate(names, 1)), nodes=names
    )


def calls_of_each_step(state: State, demand: Demand, terms: Terms) -> list[int]:
    """Return how many functions are called in each step of the searches before a decision, and in the decision itself."""
    searches, found, more = catching_up(state, demand, terms), [], True
    while more:
        with Steps() as counted:
            more = next(searches, searches) is not searches
        found.append(counted.count)
    return [*found, steps(lambda: decide(state, demand, terms))]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asks", "terms", "nodes"),
    [
        ("requests that differ in three attributes", "first fit", 2),
        ("alternatives", "first fit", 2),
        ("alternatives", "pack", 1),
        ("alternatives", "ladder", 1),
        ("beside all devices of a kind", "pack", 1),
        ("on a named node", "ladder", 2),
    ],
)
def test_no_step_of_a_search_takes_long(asks: str, terms: str, nodes: int) -> None:
    """One claim held the event loop for one to three seconds, in which nobody was served and no lease renewed."""
    state, demand, wanted = hard_cluster(nodes), DEMANDS[asks], TERMS[terms]
    decide(state, Demand((EVERY_OTHER,)), wanted)
    assert max(calls_of_each_step(state, demand, wanted)) < MOST_CALLS
    assert decide(state, demand, wanted) == decide(hard_cluster(nodes), demand, wanted)


@pytest.mark.slow
@pytest.mark.parametrize(("cards", "ladder"), [(8, DEFAULT), (64, DEFAULT), (64, None)])
def test_no_step_takes_long_where_a_pod_asks_for_hundreds_of_shares(
    cards: int, ladder: Ladder | None
) -> None:
    """Each share orders all cards by their prices; a ladder then looked for them at each value of each rung, in one step of some seconds."""
    rows = [
        device_at(index, index, index // 4)
        | {"allowMultipleAllocations": True, "capacity": amounts(memory=80_000)}
        for index in range(cards)
    ]
    state = cluster(device_slice("s", "n1", rows))
    shares = [device_request(f"r{number}", capacity={"requests": {"memory": "1"}}) for number in range(32)]
    demand = Demand(tuple([claim(f"c{number}", *shares) for number in range(8)]))
    terms = Terms(Strategy.LEAST_FRAGMENTATION, ladder=ladder)
    decide(state, Demand((claim("first", shares[0]),)), terms)
    calls = calls_of_each_step(state, demand, terms)
    assert max(calls) < MOST_CALLS
    assert sum(calls) < 6_000_000


@pytest.mark.slow
def test_a_search_ends_though_its_node_changes_at_each_step() -> None:
    """What is searched is another node each time: the search begins anew, and is given up earlier each time."""
    state, demand = hard_cluster(), DEMANDS["requests that differ in three attributes"]
    searches = catching_up(state, demand, Terms())
    for number in count():
        if next(searches, searches) is searches:
            break
        assert number < 400
        if number % 2:
            state.release("ns/other")
        else:
            state.hold("ns/other", [DeviceResult("r", DeviceId(GPU, "n1", f"d{number % 100}"))])
    assert number > 40
    with Steps(only=PartialSolution.take) as tried:
        assert decide(state, demand) is None
    assert tried.count < 500


@pytest.mark.slow
def test_what_a_paused_search_has_found_is_not_believed_after_a_change() -> None:
    """The devices that it had chosen first are in use when it goes on."""
    demand = Demand((preferring_claim(32),))
    state = hard_cluster()
    undisturbed = decide(hard_cluster(), demand)
    assert undisturbed is not None
    taken = [result.device for result in undisturbed.allocations[0].results[:3]]
    searches = catching_up(state, demand, Terms())
    next(searches)
    state.hold("ns/other", [DeviceResult("r", device) for device in taken])
    for _ in searches:
        pass
    found = decide(state, demand)
    assert found is not None
    assert not {result.device for result in found.allocations[0].results}.intersection(taken)


@pytest.mark.slow
def test_a_node_behind_a_hard_one_is_found() -> None:
    """The search of the first one is given up; the decision searches none."""
    state = hard_cluster()
    state.put_node("z", {})
    state.put_slice(easy_node("z"))
    demand = Demand((distinct_claim(20),))
    for _ in catching_up(state, demand, Terms()):
        pass
    with Steps(only=PartialSolution.take) as tried:
        found = decide(state, demand)
    assert found is not None
    assert found.node == "z"
    assert tried.count == 0


def test_a_claim_that_reads_what_each_node_has_of_its_own_is_searched_node_by_node() -> None:
    """All nodes were searched in one decision, at each new text."""
    names = [f"n{number:02d}" for number in range(60)]
    nodes = [
        device_slice(name, name, [device("d", attributes={"uuid": {"string": f"GPU-{name}"}})])
        for name in names
    ]
    state = cluster(*nodes, nodes=names)
    selector = {"cel": {"expression": f'{A}.uuid != "GPU-n00"'}}
    demand = Demand((claim("c", device_request(selectors=[selector])),))
    assert len([*catching_up(state, demand, Terms())]) == len(names)
    found = decide(state, demand)
    assert found is not None
    assert found.node == "n01"


@pytest.mark.slow
def test_the_capacity_of_many_devices_is_not_compared_in_one_step() -> None:
    """For each alternative of a claim on each device, before the first of them is tried."""
    state, demand = unlike_nodes(1, 128), Demand((many_requests(31, 8, shares=True),))
    # Many selectors are evaluated beforehand.
    query = state.queries.of(demand.claims, state.classes, state.features, demand.tolerations)
    assert is_costly(state, query)
    for _ in Preparation(state, query, 1_000_000).steps():
        pass
    assert max(calls_of_each_step(state, demand, Terms())) < MOST_CALLS / 2


@pytest.mark.slow
def test_outcomes_are_computed_in_advance_in_steps_that_end_where_something_changes() -> None:
    """Searches of all kept rankings on all nodes that had changed were made in one step of a second and more, while no pod waited."""
    names = [f"n{number:02d}" for number in range(16)]
    state = cluster(*(hard_node(name, number) for number, name in enumerate(names)), nodes=names)
    terms = Terms(Strategy.LEAST_FRAGMENTATION)
    demands = [Demand((distinct_claim(number),)) for number in (14, 16, 18)]
    for demand in demands:
        allocate(state, demand, terms)
    for name in names:
        state.hold(name, [DeviceResult("r", DeviceId(GPU, name, "d0"))])
    calls, more, computing = [], True, precompute(state, many=1)
    for _ in range(3):
        next(computing)
    state.hold("other", [DeviceResult("r", DeviceId(GPU, "n00", "d1"))])
    assert next(computing, computing) is computing
    computing = precompute(state, many=1)
    while more:
        with Steps() as counted:
            more = next(computing, computing) is not computing
        calls.append(counted.count)
    assert max(calls) < MOST_CALLS
    assert len(calls) > len(names)
    with Steps(only=PartialSolution.take) as tried:
        found = [decide(state, demand, terms) for demand in demands]
    assert tried.count == 0
    assert any(found)
    assert next(precompute(state, many=1), None) is None
