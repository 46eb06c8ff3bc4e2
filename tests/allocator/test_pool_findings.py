"""Errors of pools are looked for on the nodes that changed, and are those that a new state finds."""

from hypothesis import given
from hypothesis import strategies as st

from apportion.allocator.state import State
from apportion.dra.slice import Slice
from tests.allocator.builders import GPU, device, device_slice
from tests.steps import steps

CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("node"), st.integers(0, 2), st.booleans()),
        st.tuples(st.just("slice"), st.integers(0, 3), st.integers(0, 2), st.booleans(), st.booleans()),
        st.tuples(st.just("no slice"), st.integers(0, 3)),
    ),
    max_size=20,
)
"""A node comes or goes; a slice is published with so many devices of one name, for one node or all, as one of one or two; a slice goes."""


def test_errors_are_looked_for_on_the_nodes_that_changed() -> None:
    """The operator asks after every change of a slice: each partition that is cut is one."""
    counts = []
    for nodes in (5, 50):
        state = State()
        for number in range(nodes):
            state.put_node(f"n{number}", {})
            state.put_slice(device_slice(f"s{number}", f"n{number}", [device("gpu-0")]))
        assert state.findings() == ()
        state.put_slice(device_slice("s1", "n1", [device("gpu-0"), device("gpu-0")]))
        counts.append(steps(state.findings))
        assert [one.object for one in state.findings()] == [f"pool {GPU}/n1, slice s1"]
    assert counts[0] == counts[1]


@given(CHANGES)
def test_errors_are_those_that_a_new_state_finds(changes: list[tuple[object, ...]]) -> None:
    """Whatever came and went before: nodes, slices of one node and of all, a pool that several nodes publish."""
    state, nodes, pieces = State(), set[str](), dict[str, Slice]()
    for change in changes:
        match change:
            case "node", int(number), True:
                nodes.add(f"n{number}")
                state.put_node(f"n{number}", {})
            case "node", int(number), _:
                nodes.discard(f"n{number}")
                state.drop_node(f"n{number}")
            case "slice", int(number), int(devices), bool(wide), bool(two):
                node = None if wide else f"n{number}"
                rows = [device("gpu-0")] * devices
                piece = device_slice(f"s{number}", node, rows, pool=f"p{number // 2}", count=1 + two)
                pieces = {uid: each for uid, each in pieces.items() if uid != piece.uid} | {piece.uid: piece}
                state.put_slice(piece)
            case _, number:
                pieces.pop(f"s{number}", None)
                state.drop_slice(f"s{number}")
        fresh = State()
        for name in nodes:
            fresh.put_node(name, {})
        for piece in pieces.values():
            fresh.put_slice(piece)
        assert state.findings() == fresh.findings()
