"""LeastFragmentation keeps capacity for the demand it has learnt."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.pricing.cutstates import NOWHERE, CutStates
from apportion.allocator.pricing.demandmix import DemandEntry, DemandMix
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from apportion.allocator.world import read_world
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from apportion.dra.quantity import Quantity
from apportion.errors import BrokenInput
from tests.allocator.builders import (
    FOUR_ENGINES,
    GPU,
    SEVEN_ENGINES,
    Raw,
    chips,
    claim,
    cluster,
    device,
    device_request,
    device_slice,
    partitionable_slices,
)
from tests.allocator.conformance import answer, cases
from tests.allocator.validity import served_requests, violations

LEAST = Strategy.LEAST_FRAGMENTATION


def ask(state: State, kind: str, count: int = 1, mix: DemandMix | None = None) -> DeviceId | None:
    """Allocate devices of a kind, learn the query, hold the devices; return the first."""
    name = f"{kind}-{state.moment}"
    found = allocate(
        state, Demand((claim(name, device_request(kind=kind, count=count)),)), Terms(LEAST, mix=mix)
    )
    assert found.asked is not None
    state.learn(found.asked)
    if not isinstance(found, Decision):
        return None
    state.hold(name, found.allocations[0].results)
    return found.allocations[0].results[0].device


@pytest.mark.slow
@given(st.lists(st.sampled_from(sorted(SEVEN_ENGINES)), min_size=1, max_size=25))
@settings(max_examples=25)
def test_equal_sequences_of_claims_get_equal_devices(kinds: list[str]) -> None:
    """Demand is learnt from the claims alone, without clock or randomness."""
    states = [
        cluster(
            *partitionable_slices("n1", 2, SEVEN_ENGINES),
            *partitionable_slices("n2", 1, SEVEN_ENGINES),
            nodes=("n1", "n2"),
        )
        for _ in range(2)
    ]
    for kind in kinds:
        first, second = (ask(state, kind) for state in states)
        assert first == second
        repeated = [
            allocate(states[0], Demand((claim("x", device_request(kind=kind)),)), Terms(LEAST))
            for _ in range(2)
        ]
        assert repeated[0] == repeated[1]


@pytest.mark.slow
@given(st.lists(st.sampled_from(sorted(SEVEN_ENGINES)), min_size=1, max_size=25))
@settings(max_examples=25)
def test_precomputed_prices_choose_the_devices_that_a_search_chooses(kinds: list[str]) -> None:
    """The reference searches device by device and node by node, without reuse."""
    state = cluster(
        *partitionable_slices("n1", 2, SEVEN_ENGINES),
        *partitionable_slices("n2", 1, SEVEN_ENGINES),
        nodes=("n1", "n2"),
    )
    for kind in kinds:
        demand = Demand((claim("x", device_request(kind=kind)),))
        quick = allocate(state, demand, Terms(LEAST))
        slow = allocate(state, demand, Terms(LEAST), reuse=False)
        assert type(quick) is type(slow)
        if isinstance(quick, Decision) and isinstance(slow, Decision):
            assert (quick.node, quick.allocations) == (slow.node, slow.allocations)
        ask(state, kind)


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(["gpu", "special"]), st.integers(1, 4)), min_size=4, max_size=25))
@settings(max_examples=40)
def test_solutions_of_whole_devices_are_rescored_by_the_current_demand(
    requested: list[tuple[str, int]],
) -> None:
    """Equal node states are searched once, whatever is learnt in between; the reference searches each of them."""
    rows = {"n1": ["gpu"] * 4, "n2": ["gpu"] * 2 + ["special"] * 2, "n3": ["gpu"] * 5, "n4": ["gpu"] * 4}
    pieces = [
        device_slice(name, name, [device(f"d{n}", kind) for n, kind in enumerate(row)])
        for name, row in rows.items()
    ]
    state = cluster(*pieces, nodes=tuple(rows))
    for turn, (kind, count) in enumerate(requested):
        for other in (1, 2, 4):
            demand = Demand((claim("x", device_request(kind=kind, count=other)),))
            quick = allocate(state, demand, Terms(LEAST))
            slow = allocate(state, demand, Terms(LEAST), reuse=False)
            assert type(quick) is type(slow)
            if isinstance(quick, Decision) and isinstance(slow, Decision):
                assert (quick.node, quick.allocations) == (slow.node, slow.allocations)
        if turn % 2:
            ask(state, kind, count)
        else:
            state.learn(_asked(state, kind, count))


@pytest.mark.slow
def test_small_partitions_leave_placements_for_the_learnt_profile() -> None:
    """With a demand for three engines, small partitions share one half of a card and leave the other halves whole."""
    state = cluster(*partitionable_slices("n1", 3, SEVEN_ENGINES))
    for _ in range(20):
        state.learn(_asked(state, "three"))
    assert ask(state, "one") is not None
    held = ask(state, "one")
    # With `three` in demand, the second small partition joins the first one's half; the other halves stay whole.
    assert held is not None
    assert all(ask(state, "three") is not None for _ in range(5))


def test_the_demand_mix_of_a_policy_determines_the_prices() -> None:
    """The mix names a profile; devices are matched by their own attribute."""
    rows = [
        {"name": f"{name}-{start}", "attributes": {"profile": {"string": name}, "kind": {"string": name}},
         "consumesCounters": [{"counterSet": "c", "counters": {f"s{n}": {"value": "1"} for n in range(start, start + size)}}]}
        for name, (_, size, starts) in FOUR_ENGINES.items() for start in starts
    ]  # fmt: skip
    counters = [{"name": "c", "counters": {f"s{n}": {"value": "1"} for n in range(4)}}]
    state = cluster(
        device_slice("sets", "n1", count=2, sharedCounters=counters),
        device_slice("chips", "n1", rows, count=2),
    )
    mix = (DemandEntry(1, profile="two"),)
    assert ask(state, "one", mix=mix) == DeviceId(GPU, "n1", "one-0")
    assert ask(state, "one", mix=mix) == DeviceId(GPU, "n1", "one-1")
    scorer = state.scorer(mix)
    (group_prices,) = scorer.prices.of(state.view("n1")).by_group
    (group,) = state.view("n1").groups
    assert group_prices.worth(group.fresh) > group_prices.worth(group.state) > 0
    ask(state, "one", mix=mix)
    assert group_prices.worth(group.state) == 0  # a placement for `one` is useless to demand for `two`


def test_a_share_is_taken_where_the_capacity_left_serves_the_demand() -> None:
    """Six units left are worth more than five if shares of six are in demand, so a share of four uses the five."""
    rows = [
        device(name, allowMultipleAllocations=True, capacity={"units": {"value": "10"}})
        for name in ("a", "b")
    ]
    state = cluster(device_slice("s", "n1", rows))
    for number, (amount, name) in enumerate([(4, "a"), (5, "b")]):
        state.hold(f"h{number}", [_shared(name, amount)])
    for amount in (6, 4) * 8:
        found = allocate(state, Demand((claim("x", _units(amount)),)), Terms(LEAST))
        assert found.asked is not None
        state.learn(found.asked)
    found = allocate(state, Demand((claim("x", _units(4)),)), Terms(LEAST))
    assert isinstance(found, Decision)
    assert found.allocations[0].results[0].device.name == "b"


def test_an_idle_partition_is_kept_if_another_placement_costs_the_same() -> None:
    """A live partition without a holder is not destroyed for another profile if an equal placement is free."""
    nodes = ("n1", "n2")
    for spared, other in (nodes, nodes[::-1]):
        state = cluster(
            *partitionable_slices("n1", 1, FOUR_ENGINES),
            *partitionable_slices("n2", 1, FOUR_ENGINES),
            nodes=nodes,
        )
        idle = {DeviceId(GPU, spared, "two-0-0"): 1, DeviceId(GPU, spared, "two-0-2"): 1}
        found = allocate(
            state,
            Demand((claim("x", device_request(kind="four")),), frozenset(nodes)),
            Terms(LEAST),
            prefer=idle,
        )
        assert isinstance(found, Decision)
        assert found.node == other


def test_claims_are_served_on_counters_with_too_many_states_to_price() -> None:
    """`CutStates` reports more states than its bound; allocation still serves the claims."""
    primes = (10007, 10009, 10037, 10039, 10061, 10067)
    board = CutStates((10_000_000,) * 2, [[(prime, 1)] for prime in primes])
    assert board.full == NOWHERE
    rows = [
        device(f"p{n}-{copy}", f"p{n}", {"a": prime, "b": 1}, "c")
        for n, prime in enumerate(primes)
        for copy in range(12)
    ]
    counters = [{"name": "c", "counters": {"a": {"value": "10000000"}, "b": {"value": "10000000"}}}]
    state = cluster(
        device_slice("s", "n1", count=2, sharedCounters=counters), device_slice("d", "n1", rows, count=2)
    )
    assert all(ask(state, f"p{n}") is not None for n in range(6) for _ in range(3))


@pytest.mark.slow
@pytest.mark.parametrize("case", cases())
def test_learnt_demand_changes_no_verdict(case: dict[str, Any]) -> None:
    """Learnt demand changes neither the verdict nor the alternatives, and results are legal."""
    given_ = answer(case, LEAST)
    world = read_world(case)
    try:
        found = allocate(world.state, world.demand, Terms(LEAST))
        if found.asked is not None:
            world.state.learn(found.asked)
        found = allocate(world.state, world.demand, Terms(LEAST))
    except BrokenInput:
        assert given_["kind"] == "error"
        return
    if isinstance(found, Decision):
        results = [one.to_json() for one in found.allocations]
        assert given_["kind"] == "results"
        assert violations(case, results) == []
        assert served_requests(results) == served_requests(given_["results"])
    else:
        assert given_["kind"] != "results"


def test_learnt_demand_survives_a_changed_device_class() -> None:
    """A new DeviceClass object empties the query cache, not the learnt demand."""
    state = cluster(*chips("n1", 2))
    ask(state, "part")
    mix = state.scorer().prices.mix
    state.put_class(state.classes["any"])
    ask(state, "part")
    assert {entry.alternative for entry in state.scorer().prices.mix} >= {entry.alternative for entry in mix}


def _asked(state: State, kind: str, count: int = 1) -> Any:
    return allocate(state, Demand((claim("x", device_request(kind=kind, count=count)),)), Terms(LEAST)).asked


def _units(amount: int) -> Raw:
    return device_request(capacity={"requests": {"units": str(amount)}})


def _shared(name: str, amount: int) -> DeviceResult:
    consumed = {"units": Quantity.parse(str(amount))}
    return DeviceResult("r", DeviceId(GPU, "n1", name), share_id=f"share-{name}", consumed=consumed)
