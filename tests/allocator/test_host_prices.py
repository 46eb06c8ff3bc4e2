"""LeastFragmentation keeps cpu and memory on nodes whose devices need them."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.allocator.allocate import allocate
from apportion.allocator.closeness.ladder import Ladder, Rung
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.facts.host import HostDemand, HostResources
from apportion.allocator.pricing.stranding import HostCurve
from apportion.allocator.queue import allocate_queue
from apportion.allocator.rules.query import Query
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from apportion.dra.allocation import DeviceResult
from tests.allocator.builders import (
    SEVEN_ENGINES,
    claim,
    cluster,
    device,
    device_request,
    device_slice,
    partitionable_slices,
)

LEAST = Strategy.LEAST_FRAGMENTATION
GIB = 1 << 30
POOR, RICH = HostResources(16_000, 64 * GIB), HostResources(128_000, 1024 * GIB)
LIGHT, HEAVY = HostResources(1_000, GIB), HostResources(16_000, 16 * GIB)
PLENTY = HostResources(10_000_000, 1 << 60)

Left = Mapping[str, HostResources]


def gpus(*nodes: str, count: int = 8) -> State:
    """Return nodes with whole devices."""
    rows = [device(f"gpu-{index}", attributes=_attributes(index)) for index in range(count)]
    return cluster(*(device_slice(f"s-{node}", node, rows) for node in nodes), nodes=nodes)


def ask(
    state: State,
    name: str,
    asked: HostResources,
    left: Left,
    kind: str = "gpu",
    count: int = 1,
    ladder: Ladder | None = None,
) -> str | None:
    """Allocate on a node with enough cpu and memory left, learn the query, hold the devices; return the node."""
    fitting = frozenset(
        node for node, here in left.items() if here.cpu >= asked.cpu and here.memory >= asked.memory
    )
    for node, here in left.items():
        state.put_host(node, here)
    demand = Demand((claim(name, device_request(kind=kind, count=count)),), fitting, host=HostDemand(asked))
    found = allocate(state, demand, Terms(LEAST, ladder))
    assert found.asked is not None
    state.learn(found.asked, asked)
    if not isinstance(found, Decision):
        return None
    state.hold(name, found.allocations[0].results)
    return found.node


@pytest.mark.parametrize("poor", ["n1", "n2"])
@pytest.mark.parametrize("short", ["cpu", "memory"])
@pytest.mark.parametrize("ladder", [None, Ladder((Rung("kind"),))], ids=["plain", "ladder"])
def test_a_small_host_request_goes_to_the_node_with_little_cpu_or_memory_left(
    poor: str, short: str, ladder: Ladder | None
) -> None:
    """Devices there are useless to pods with large requests; the devices of the other node are kept for those."""
    rich = "n1" if poor == "n2" else "n2"
    state = gpus("n1", "n2")
    heavy, scarce = (
        (HEAVY, HostResources(16_000, 1024 * GIB))
        if short == "cpu"
        else (HostResources(1_000, 128 * GIB), POOR)
    )
    left = {poor: scarce, rich: RICH}
    for number in range(4):
        assert ask(state, f"heavy-{number}", heavy, {rich: RICH}) == rich
        state.release(f"heavy-{number}")
    assert ask(state, "light", LIGHT, left, count=2, ladder=ladder) == poor
    assert ask(state, "heavy", heavy, left) == rich


def test_assumed_host_requests_count_against_the_current_host_capacity() -> None:
    """200 cores suffice for eight devices at 16 cores each; not with 100 of them assumed by others."""
    state = gpus("n1", "n2")
    for number in range(4):
        assert ask(state, f"heavy-{number}", HEAVY, {"n1": RICH, "n2": RICH}) == "n1"
        state.release(f"heavy-{number}")
    state.put_host("n1", PLENTY)
    much, little = ({"n2": HostResources(cores * 1000, GIB)} for cores in (100, 1))
    enough = HostResources(200_000, 4096 * GIB)
    nodes = []
    for left, taken in (
        (PLENTY, much), (enough, much), (PLENTY, little), (enough, little), (enough, much),
    ):  # fmt: skip
        state.put_host("n2", left)
        demand = Demand(
            (claim("light", device_request(count=2)),), frozenset(["n1", "n2"]), host=HostDemand(LIGHT, taken)
        )
        nodes.append(getattr(allocate(state, demand, Terms(LEAST)), "node", None))
    assert nodes == ["n1", "n2", "n1", "n1", "n2"]


@pytest.mark.parametrize("promised", [True, False])
@pytest.mark.parametrize("poor", ["n1", "n2"])
def test_cpu_that_is_used_without_devices_changes_the_chosen_node(poor: str, promised: bool) -> None:  # noqa: FBT001
    """Pods without devices use them, or pods whose placement is assumed."""
    state = gpus("n1", "n2")
    rich = dict.fromkeys(("n1", "n2"), PLENTY)
    for number in range(8):
        assert ask(state, f"heavy-{number}", HEAVY, rich) is not None
        state.release(f"heavy-{number}")
    taken = HostResources(PLENTY.cpu - POOR.cpu, 0)
    if not promised:
        state.put_host(poor, POOR)
    host = HostDemand(LIGHT, {poor: taken} if promised else {})
    found = allocate(
        state, Demand((claim("light", device_request()),), frozenset(rich), host=host), Terms(LEAST)
    )
    assert isinstance(found, Decision)
    assert found.node == poor


def test_partitions_count_by_their_value_when_host_capacity_is_short() -> None:
    """The small partition goes to the node with little cpu, although a card of the other node is partitioned already."""
    state = cluster(
        *partitionable_slices("n1", 2, SEVEN_ENGINES),
        *partitionable_slices("n2", 2, SEVEN_ENGINES),
        nodes=("n1", "n2"),
    )
    left = {"n1": POOR, "n2": RICH}
    for number in range(3):
        assert ask(state, f"three-{number}", HostResources(32_000, 16 * GIB), {"n2": RICH}, "three") == "n2"
    assert ask(state, "one", LIGHT, {"n1": RICH, "n2": RICH}, "one") == "n2"
    state.release("one")
    assert ask(state, "one", LIGHT, left, "one") == "n1"


def test_claims_that_wait_together_do_not_share_the_same_cpu() -> None:
    """One node has devices for both claims, but cpu for one."""
    state = gpus("n1", "n2", count=2)
    for node in ("n1", "n2"):
        state.put_host(node, HostResources(17_000, 1 << 60))
    demands = [
        Demand((claim(name, device_request()),), nodes, host=HostDemand(HostResources(12_000, GIB)))
        for name, nodes in (("a", None), ("b", frozenset(["n1", "n2"])), ("c", frozenset(["n1", "n2"])))
    ]
    answers = allocate_queue(state, demands)
    assert sorted(one.node for one in answers if isinstance(one, Decision)) == ["n1", "n2"]


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(SEVEN_ENGINES)), st.integers(0, 64), st.integers(0, 64)), max_size=20
    ),
    st.booleans(),
)
@settings(max_examples=25)
def test_with_plenty_of_host_capacity_the_choice_depends_on_devices_alone(
    asked: list[tuple[str, int, int]],
    named: bool,  # noqa: FBT001 - drawn
) -> None:
    """The choice equals that without host requests, with and without allowed nodes."""
    nodes = ("n1", "n2", "n3")
    states = [
        cluster(*(one for node in nodes for one in partitionable_slices(node, 1, SEVEN_ENGINES)), nodes=nodes)
        for _ in range(2)
    ]
    for number, (kind, cpu, memory) in enumerate(asked):
        amounts = HostResources(cpu * 1000, memory * GIB)
        claims = (claim(f"c{number}", device_request(kind=kind)),)
        found = []
        for state, host in zip(states, (None, HostDemand(amounts)), strict=True):
            for node in nodes:
                state.put_host(node, PLENTY)
            answer = allocate(
                state, Demand(claims, frozenset(nodes) if named else None, host=host), Terms(LEAST)
            )
            assert answer.asked is not None
            state.learn(answer.asked, amounts)
            if isinstance(answer, Decision):
                state.hold(f"c{number}", answer.allocations[0].results)
            found.append((answer.node, answer.allocations) if isinstance(answer, Decision) else None)
        assert found[0] == found[1]


STEP = st.tuples(
    st.sampled_from(sorted(SEVEN_ENGINES)),
    st.integers(1, 16),
    st.integers(0, 2),
    st.sampled_from((4, 24, 400)),
)


@pytest.mark.slow
@given(st.lists(STEP, min_size=1, max_size=12), st.integers(0, 2))
@settings(max_examples=25)
def test_equal_facts_give_the_same_answer_whatever_their_history(
    steps: list[tuple[str, int, int, int]], other: int
) -> None:
    """A state that followed all changes answers like a new one; assumed requests count like host facts."""
    nodes = ("n1", "n2", "n3")
    slices = [one for node in nodes for one in partitionable_slices(node, 1, SEVEN_ENGINES)]
    state = cluster(*slices, nodes=nodes)
    left = dict.fromkeys(nodes, HostResources(24_000, 400 * GIB))
    learnt = [(_query(state, kind), HostResources(16_000, 16 * GIB)) for kind in sorted(SEVEN_ENGINES)]
    held: dict[str, Sequence[DeviceResult]] = {}
    for query, amounts in learnt:
        state.learn(query, amounts)
    for number, (kind, cpu, changed, cores) in enumerate(steps):
        asked, name = HostResources(cpu * 1000, GIB), f"c{number}"
        left[nodes[changed]] = HostResources(cores * 1000, 400 * GIB)
        demand = Demand((claim(name, device_request(kind=kind)),), frozenset(nodes), host=HostDemand(asked))
        promised = {nodes[other]: HostResources(5_000, 3 * GIB)}
        fresh = cluster(*slices, nodes=nodes)
        for query, amounts in learnt:
            fresh.learn(query, amounts)
        for key, results in held.items():
            fresh.hold(key, results)
        for node, here in left.items():
            state.put_host(node, here)
            fresh.put_host(node, here.plus(promised.get(node, HostResources(0, 0))))
        found = allocate(state, demand, Terms(LEAST))
        assert found == allocate(fresh, replace(demand, host=HostDemand(asked, promised)), Terms(LEAST))
        if number % 3 == 2 and held:
            gone = min(held)
            del held[gone]
            state.release(gone)
        if isinstance(found, Decision):
            held[name] = found.allocations[0].results
            state.hold(name, held[name])


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9)), min_size=1, max_size=6), st.integers(0, 25))
def test_the_host_curve_is_the_expected_smaller_loss_of_two_pods_of_the_demand(
    wanted: list[tuple[int, int]], left: int
) -> None:
    """The curve equals the sum over all pairs."""
    total = sum(weight for _, weight in wanted)
    losses = [(max(0.0, 1 - left / amount) if amount else 0.0, weight / total) for amount, weight in wanted]
    expected = sum(p * q * min(a, b) for (a, p), (b, q) in product(losses, repeat=2))
    assert HostCurve(wanted).part(left) == pytest.approx(expected, abs=1e-12)


@pytest.mark.slow
def test_host_prices_halve_the_devices_stranded_in_a_full_cluster() -> None:
    """Nodes with unequal cpu, pods with unequal requests: host prices halve the stranded devices, summed over five seeds."""
    left_over = {priced: sum(_filled(seed, priced=priced) for seed in range(5)) for priced in (True, False)}
    assert 0 <= 2 * left_over[True] < left_over[False]


def _filled(seed: int, *, priced: bool) -> int:
    """Return the number of devices left unused after 90 claims."""
    rng = random.Random(seed)  # noqa: S311 - a test that can be repeated
    nodes = [f"n{number:02d}" for number in range(12)]
    left = {node: HostResources(rng.choice((64, 96, 128)) * 1000, 1 << 50) for node in nodes}
    state = gpus(*nodes)
    free = 8 * len(nodes)
    for number in range(90):
        count = rng.choice((1, 1, 2, 4))
        asked = HostResources(count * rng.choice((4, 8, 12, 16)) * 1000, GIB)
        host_left = (
            left if priced else dict.fromkeys((node for node in left if left[node].cpu >= asked.cpu), PLENTY)
        )
        node = ask(state, f"c{number}", asked, host_left, count=count)
        if node is not None:
            left[node] = left[node].less(asked)
            free -= count
    return free


def _query(state: State, kind: str) -> Query:
    found = allocate(state, Demand((claim("x", device_request(kind=kind)),)), Terms(LEAST))
    assert found.asked is not None
    return found.asked


def _attributes(index: int) -> dict[str, dict[str, object]]:
    return {"kind": {"string": "gpu"}, "index": {"int": index}}
