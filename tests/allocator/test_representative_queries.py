"""Claims that match the same devices are one question, and nodes are alike that differ in what nobody compares."""

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.nodeoutcomes import precompute
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from tests.allocator.builders import GPU, A, claim, cluster, device, piece, want

NODES = [f"n{number:03d}" for number in range(120)]


def ask(state: State, text: str, strategy: Strategy = Strategy.LEAST_FRAGMENTATION) -> Decision | Refusal:
    """Ask for one device that a text accepts."""
    selectors = [{"cel": {"expression": text}}]
    return allocate(state, Demand((claim("c", want(selectors=selectors)),)), Terms(strategy))


@pytest.mark.parametrize("strategy", Strategy)
def test_texts_that_match_the_same_are_one_question_until_a_node_tells_them_apart(strategy: Strategy) -> None:
    """What is asked for is counted by what it matches; each text gets what it says all the same."""
    state = cluster(*(piece(name, name, [device("gpu-0")]) for name in NODES[:3]), nodes=NODES[:4])
    one, two = f'{A}.kind != "one"', f'{A}.kind != "two"'
    assert ask(state, one, strategy).asked is ask(state, two, strategy).asked

    state.put_slice(piece("n003", "n003", [device("gpu-0", "two")]))
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
def test_nodes_that_come_while_no_claim_waits_are_precomputed_for_each_text_by_itself(
    first: str, later: str
) -> None:
    """Two texts match the same devices until nodes of a new class come; no text gets what only the other one accepts."""
    state = cluster(*(piece(name, name, [device("gpu-0")]) for name in NODES[:3]), nodes=NODES[:6])
    texts = {kind: f'{A}.kind != "{kind}"' for kind in ("one", "two")}
    for text in texts.values():
        ask(state, text)
    for name in NODES[:3]:
        state.drop_node(name)
    for name in NODES[3:6]:
        state.put_slice(piece(name, name, [device("gpu-0", later)]))
    precompute(state, many=1)
    for kind in sorted(texts, key=lambda kind: kind != first):
        assert isinstance(ask(state, texts[kind]), Refusal if kind == later else Decision)


def test_nodes_are_alike_that_differ_in_what_nobody_compares() -> None:
    """Marks that differ from node to node make no kinds; a constraint on them is served as if they had."""
    state = cluster(nodes=NODES)
    for number, name in enumerate(NODES):
        # In no two nodes do the same devices agree: those of the bits that are 0 in the number do.
        marks = [number >> bit & 1 for bit in range(7)]
        devices = [device(f"gpu-{bit}") for bit in range(7)]
        for bit, one in enumerate(devices):
            one["attributes"]["mark"] = {"string": f"{name}-{bit if marks[bit] else 'same'}"}
        state.put_slice(piece(name, name, devices))
    assert isinstance(ask(state, "true"), Decision)
    assert state.class_count == 1

    names = {"matchAttribute": f"{GPU}/mark"}
    for count in (7, 6):
        demand = Demand((claim("c", want(count=count), constraints=[names]),))
        for strategy in Strategy:
            found = allocate(state, demand, Terms(strategy))
            assert isinstance(found, Decision)
            marked = {result.device.name for result in found.allocations[0].results}
            spread = int(found.node[1:])
            assert not any(spread >> int(name.removeprefix("gpu-")) & 1 for name in marked), found.node
    assert state.class_count > len(NODES) // 2
