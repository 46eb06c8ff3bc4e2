"""Claims that match the same devices share a representative query; node classes ignore attributes that no claim reads."""

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.nodeoutcomes import precompute
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from apportion.dra.slice import Slice
from tests.allocator.builders import GPU, A, amounts, claim, cluster, device, device_request, device_slice

NODES = [f"n{number:03d}" for number in range(120)]


def ask(state: State, text: str, strategy: Strategy = Strategy.LEAST_FRAGMENTATION) -> Decision | Refusal:
    """Allocate one device that a selector accepts."""
    selectors = [{"cel": {"expression": text}}]
    return allocate(state, Demand((claim("c", device_request(selectors=selectors)),)), Terms(strategy))


@pytest.mark.parametrize("strategy", Strategy)
def test_selectors_that_match_the_same_devices_share_a_query_until_a_node_class_distinguishes_them(
    strategy: Strategy,
) -> None:
    """Demand is counted per representative; each selector keeps its own outcome once they differ."""
    state = cluster(*(device_slice(name, name, [device("gpu-0")]) for name in NODES[:3]), nodes=NODES[:4])
    one, two = f'{A}.kind != "one"', f'{A}.kind != "two"'
    assert ask(state, one, strategy).asked is ask(state, two, strategy).asked

    state.put_slice(device_slice("n003", "n003", [device("gpu-0", "two")]))
    for name in NODES[:3]:
        state.drop_node(name)
    first, second = ask(state, one, strategy), ask(state, two, strategy)
    assert first.asked is not second.asked
    assert isinstance(first, Decision)
    assert first.node == "n003"
    assert isinstance(second, Refusal)
    assert isinstance(ask(state, one, strategy), Decision)


@pytest.mark.parametrize("later", ["one", "two"])
@pytest.mark.parametrize("first", ["one", "two"])
def test_precomputed_outcomes_of_new_nodes_belong_to_one_selector_each(first: str, later: str) -> None:
    """Two selectors match the same devices until nodes of a new class come; neither gets a device that only the other matches."""
    state = cluster(*(device_slice(name, name, [device("gpu-0")]) for name in NODES[:3]), nodes=NODES[:6])
    texts = {kind: f'{A}.kind != "{kind}"' for kind in ("one", "two")}
    for text in texts.values():
        ask(state, text)
    for name in NODES[:3]:
        state.drop_node(name)
    for name in NODES[3:6]:
        state.put_slice(device_slice(name, name, [device("gpu-0", later)]))
    for _ in precompute(state, many=1):
        pass
    for kind in sorted(texts, key=lambda kind: kind != first):
        assert isinstance(ask(state, texts[kind]), Refusal if kind == later else Decision)


@pytest.mark.parametrize("later", ["one", "two"])
@pytest.mark.parametrize("first", ["one", "two"])
def test_precomputed_outcomes_belong_to_one_selector_each_also_under_a_strategy_that_others_used_meanwhile(
    first: str, later: str
) -> None:
    """A claim of another policy tells the selectors apart; what is kept for the other strategy is its selector's from then on."""
    state = cluster(*part_slices(NODES[0], "part"), nodes=NODES[:4])
    texts = {kind: f'{A}.kind != "{kind}"' for kind in ("one", "two")}
    for text in texts.values():
        ask(state, text)
    state.drop_node(NODES[0])
    for name in NODES[1:4]:
        for one in part_slices(name, later):
            state.put_slice(one)
    ask(state, texts[first], Strategy.PACK)
    for _ in precompute(state, many=1):
        pass
    for kind, text in texts.items():
        assert isinstance(ask(state, text), Refusal if kind == later else Decision)


def part_slices(name: str, kind: str) -> list[Slice]:
    """Return the slices of a node with one partition of a kind."""
    counters = [{"name": "chip-0", "counters": amounts(units=1)}]
    return [
        device_slice(f"{name}-counters", name, count=2, sharedCounters=counters),
        device_slice(f"{name}-devices", name, [device("gpu-0", kind, {"units": 1})], count=2),
    ]


def test_attributes_that_no_claim_reads_make_no_node_classes() -> None:
    """Values that differ from node to node make one class; a constraint on them splits it and is satisfied."""
    state = cluster(nodes=NODES)
    for number, name in enumerate(NODES):
        # On every node another set of devices has the value `same`: those whose bit in the node's number is 0.
        marks = [number >> bit & 1 for bit in range(7)]
        devices = [device(f"gpu-{bit}") for bit in range(7)]
        for bit, one in enumerate(devices):
            one["attributes"]["mark"] = {"string": f"{name}-{bit if marks[bit] else 'same'}"}
        state.put_slice(device_slice(name, name, devices))
    assert isinstance(ask(state, "true"), Decision)
    assert state.class_count == 1

    names = {"matchAttribute": f"{GPU}/mark"}
    for count in (7, 6):
        demand = Demand((claim("c", device_request(count=count), constraints=[names]),))
        for strategy in Strategy:
            found = allocate(state, demand, Terms(strategy))
            assert isinstance(found, Decision)
            marked = {result.device.name for result in found.allocations[0].results}
            spread = int(found.node[1:])
            assert not any(spread >> int(name.removeprefix("gpu-")) & 1 for name in marked), found.node
    assert state.class_count > len(NODES) // 2


@pytest.mark.parametrize("strategy", Strategy)
def test_a_selector_of_per_node_attributes_chooses_no_node_that_is_gone_or_has_no_devices_left(
    strategy: Strategy,
) -> None:
    """Such outcomes are kept by node; each of 120 nodes has a value of its own, and the best ones leave one by one."""
    devices = {name: device("gpu-0") for name in NODES}
    for name, row in devices.items():
        row["attributes"]["uuid"] = {"string": f"GPU-{name}"}
    state = cluster(*(device_slice(name, name, [row]) for name, row in devices.items()), nodes=NODES)
    chosen = []
    for number in range(6):
        found = ask(state, f'{A}.uuid != "none"', strategy)
        assert isinstance(found, Decision)
        chosen.append(found.node)
        if number % 2:
            state.hold(f"c{number}", found.allocations[0].results)
        else:
            state.drop_node(found.node)
    assert chosen == NODES[:6]
