"""LeastFragmentation keeps room for what is asked for."""

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
from tests.allocator.builders import GPU, Raw, chips, claim, cluster, device, piece, want
from tests.allocator.conformance import answer, cases
from tests.allocator.test_packing_batch import FOUR, SEVEN, split
from tests.allocator.validity import complaints, ranks

LEAST = Strategy.LEAST_FRAGMENTATION


def ask(state: State, kind: str, count: int = 1, mix: DemandMix | None = None) -> DeviceId | None:
    """Ask for devices, let the state learn of it, hold them; return the first."""
    name = f"{kind}-{state.moment}"
    found = allocate(state, Demand((claim(name, want(kind=kind, count=count)),)), Terms(LEAST, mix=mix))
    assert found.asked is not None
    state.learn(found.asked)
    if not isinstance(found, Decision):
        return None
    state.hold(name, found.allocations[0].results)
    return found.allocations[0].results[0].device


@given(st.lists(st.sampled_from(sorted(SEVEN)), min_size=1, max_size=25))
@settings(max_examples=25, deadline=None)
def test_the_same_claims_in_the_same_order_get_the_same_devices(kinds: list[str]) -> None:
    """Demand is learnt, but from facts only."""
    states = [cluster(*split("n1", 2, SEVEN), *split("n2", 1, SEVEN), nodes=("n1", "n2")) for _ in range(2)]
    for kind in kinds:
        first, second = (ask(state, kind) for state in states)
        assert first == second
        again = [allocate(states[0], Demand((claim("x", want(kind=kind)),)), Terms(LEAST)) for _ in range(2)]
        assert again[0] == again[1]


@given(st.lists(st.sampled_from(sorted(SEVEN)), min_size=1, max_size=25))
@settings(max_examples=25, deadline=None)
def test_what_is_looked_up_is_what_the_search_finds(kinds: list[str]) -> None:
    """Another budget takes the long way: devices one by one, nodes one by one."""
    state = cluster(*split("n1", 2, SEVEN), *split("n2", 1, SEVEN), nodes=("n1", "n2"))
    for kind in kinds:
        demand = Demand((claim("x", want(kind=kind)),))
        quick = allocate(state, demand, Terms(LEAST))
        slow = allocate(state, demand, Terms(LEAST), reuse=False)
        assert type(quick) is type(slow)
        if isinstance(quick, Decision) and isinstance(slow, Decision):
            assert (quick.node, quick.allocations) == (slow.node, slow.allocations)
        ask(state, kind)


@given(st.lists(st.tuples(st.sampled_from(["gpu", "special"]), st.integers(1, 4)), min_size=4, max_size=25))
@settings(max_examples=40, deadline=None)
def test_whole_devices_chosen_before_are_rated_by_the_demand_of_now(wishes: list[tuple[str, int]]) -> None:
    """Nodes that stand alike are searched once, whatever is learnt meanwhile; another budget searches them anew."""
    rows = {"n1": ["gpu"] * 4, "n2": ["gpu"] * 2 + ["special"] * 2, "n3": ["gpu"] * 5, "n4": ["gpu"] * 4}
    pieces = [
        piece(name, name, [device(f"d{n}", kind) for n, kind in enumerate(row)]) for name, row in rows.items()
    ]
    state = cluster(*pieces, nodes=tuple(rows))
    for turn, (kind, count) in enumerate(wishes):
        for other in (1, 2, 4):
            demand = Demand((claim("x", want(kind=kind, count=other)),))
            quick = allocate(state, demand, Terms(LEAST))
            slow = allocate(state, demand, Terms(LEAST), reuse=False)
            assert type(quick) is type(slow)
            if isinstance(quick, Decision) and isinstance(slow, Decision):
                assert (quick.node, quick.allocations) == (slow.node, slow.allocations)
        if turn % 2:
            ask(state, kind, count)
        else:
            state.learn(_asked(state, kind, count))


def test_room_is_kept_for_what_is_asked_for() -> None:
    """Three of four engines: with `two` in demand the odd one goes beside the odd one, wherever else it would fit."""
    state = cluster(*split("n1", 3, SEVEN))
    for _ in range(20):
        state.learn(_asked(state, "three"))
    assert ask(state, "one") is not None
    held = ask(state, "one")
    # Where threes are wanted, the second small one joins the first half, and every other half stays whole.
    assert held is not None
    assert all(ask(state, "three") is not None for _ in range(5))


def test_a_policy_may_foretell_the_demand() -> None:
    """The profile's name is looked up in the devices' own attributes."""
    rows = [
        {"name": f"{name}-{start}", "attributes": {"profile": {"string": name}, "kind": {"string": name}},
         "consumesCounters": [{"counterSet": "c", "counters": {f"s{n}": {"value": "1"} for n in range(start, start + size)}}]}
        for name, (_, size, starts) in FOUR.items() for start in starts
    ]  # fmt: skip
    counters = [{"name": "c", "counters": {f"s{n}": {"value": "1"} for n in range(4)}}]
    state = cluster(
        piece("sets", "n1", count=2, sharedCounters=counters), piece("chips", "n1", rows, count=2)
    )
    mix = (DemandEntry(1, profile="two"),)
    assert ask(state, "one", mix=mix) == DeviceId(GPU, "n1", "one-0")
    assert ask(state, "one", mix=mix) == DeviceId(GPU, "n1", "one-1")
    scorer = state.scorer(mix)
    (group_prices,) = scorer.prices.of(state.view("n1")).by_group
    (group,) = state.view("n1").groups
    assert group_prices.worth(group.fresh) > group_prices.worth(group.state) > 0
    ask(state, "one", mix=mix)
    assert group_prices.worth(group.state) == 0  # a room for one is of no use to those who want two


def test_a_share_goes_where_what_is_left_serves_others() -> None:
    """Six units left are worth more than five where sixes are asked for, so a four takes from the five."""
    rows = [
        device(name, allowMultipleAllocations=True, capacity={"units": {"value": "10"}})
        for name in ("a", "b")
    ]
    state = cluster(piece("s", "n1", rows))
    for number, (amount, name) in enumerate([(4, "a"), (5, "b")]):
        state.hold(f"h{number}", [_shared(name, amount)])
    for amount in (6, 4) * 8:
        found = allocate(state, Demand((claim("x", _units(amount)),)), Terms(LEAST))
        assert found.asked is not None
        state.learn(found.asked)
    found = allocate(state, Demand((claim("x", _units(4)),)), Terms(LEAST))
    assert isinstance(found, Decision)
    assert found.allocations[0].results[0].device.name == "b"


def test_an_idle_partition_is_spared_where_another_place_costs_the_same() -> None:
    """A live partition that nobody holds is not destroyed for a claim of another profile if that is free."""
    nodes = ("n1", "n2")
    for spared, other in (nodes, nodes[::-1]):
        state = cluster(*split("n1", 1, FOUR), *split("n2", 1, FOUR), nodes=nodes)
        idle = {DeviceId(GPU, spared, "two-0-0"): 1, DeviceId(GPU, spared, "two-0-2"): 1}
        found = allocate(
            state, Demand((claim("x", want(kind="four")),), frozenset(nodes)), Terms(LEAST), prefer=idle
        )
        assert isinstance(found, Decision)
        assert found.node == other


def test_too_many_states_are_estimated() -> None:
    """A board that would grow without end says so; nothing hangs, and claims are served all the same."""
    primes = (10007, 10009, 10037, 10039, 10061, 10067)
    board = CutStates((10_000_000,) * 2, [[(prime, 1)] for prime in primes])
    assert board.full == NOWHERE
    rows = [
        device(f"p{n}-{copy}", f"p{n}", {"a": prime, "b": 1}, "c")
        for n, prime in enumerate(primes)
        for copy in range(12)
    ]
    counters = [{"name": "c", "counters": {"a": {"value": "10000000"}, "b": {"value": "10000000"}}}]
    state = cluster(piece("s", "n1", count=2, sharedCounters=counters), piece("d", "n1", rows, count=2))
    assert all(ask(state, f"p{n}") is not None for n in range(6) for _ in range(3))


@pytest.mark.parametrize("case", cases())
def test_what_was_learnt_changes_no_verdict(case: dict[str, Any]) -> None:
    """As without: solvable stays solvable, results stay legal."""
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
        assert complaints(case, results) == []
        assert ranks(results) == ranks(given_["results"])
    else:
        assert given_["kind"] != "results"


def test_demand_that_was_learnt_outlives_what_is_said_of_classes() -> None:
    """A class that comes anew empties the memory of claims, not that of what was asked for."""
    state = cluster(*chips("n1", 2))
    ask(state, "part")
    mix = state.scorer().prices.mix
    state.put_class(state.classes["any"])
    ask(state, "part")
    assert {entry.alternative for entry in state.scorer().prices.mix} >= {entry.alternative for entry in mix}


def _asked(state: State, kind: str, count: int = 1) -> Any:
    return allocate(state, Demand((claim("x", want(kind=kind, count=count)),)), Terms(LEAST)).asked


def _units(amount: int) -> Raw:
    return want(capacity={"requests": {"units": str(amount)}})


def _shared(name: str, amount: int) -> DeviceResult:
    consumed = {"units": Quantity.parse(str(amount))}
    return DeviceResult("r", DeviceId(GPU, "n1", name), share_id=f"share-{name}", consumed=consumed)
