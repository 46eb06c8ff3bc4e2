"""How many pods of a gang could have devices is counted, and followed node by node; a search never serves more."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.allocator.gang.members import GangServed, Member
from apportion.allocator.gang.podbound import GangKind, PodBound
from apportion.allocator.state import State
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from tests.allocator.builders import GPU
from tests.allocator.gangs import Demands, answer_of, fleet

NODES = ("n1", "n2", "n3")
ROOM = 3
"""Members that a node has room for beside devices."""
HELD = st.lists(st.tuples(st.sampled_from(NODES), st.integers(0, 4)), max_size=8)
"""So many devices are free on a node from now on, one change after the other."""


def hold(state: State, node: str, free: int) -> None:
    """Let so many devices of a node be free."""
    state.hold(node, [DeviceResult("r", DeviceId(GPU, node, f"gpu-{each}")) for each in range(4 - free)])


def bound_of(state: State, counts: Sequence[int], *, room: int = ROOM) -> PodBound:
    """Return the bound of members that want so many devices each, not counted on any node yet; a node has room for `room` members."""
    demands = Demands(state, counts)
    kinds = []
    for count, members in Counter(counts).items():
        demand = demands.of(counts.index(count))
        assert demand is not None
        kinds.append(GangKind(demand, members, 1, lambda _: room))
    return PodBound(state, kinds)


@pytest.mark.slow
@given(HELD, st.lists(st.integers(1, 3), min_size=1, max_size=5))
def test_a_bound_that_is_followed_is_that_of_now_and_nobody_gets_more(
    held: list[tuple[str, int]], counts: list[int]
) -> None:
    """Of one kind it is the number itself, of several at least what a search finds."""
    state = fleet(n1=0, n2=2, n3=4)
    followed = bound_of(state, counts)
    followed.look(NODES)
    for node, free in held:
        hold(state, node, free)
        followed.look([node])
    anew = bound_of(state, counts)
    anew.look(NODES)
    assert followed.pods == anew.pods
    members = [Member(kind=count) for count in counts]
    answer = answer_of(Demands(state, counts, at_most=ROOM), members, 1)
    served = sum(each is not None for each in answer.decisions) if isinstance(answer, GangServed) else 0
    assert served <= followed.pods <= len(counts)
    if len(set(counts)) == 1 and counts[0] > 1:
        assert served == followed.pods


def test_no_more_members_count_on_a_node_than_it_has_room_for() -> None:
    """Beside devices."""
    bound = bound_of(fleet(n1=4, n2=4), [1, 1, 1, 1, 1], room=2)
    bound.look(["n1"])
    assert bound.pods == 2
    bound.look(["n2"])
    assert bound.pods == 4


def test_a_node_that_is_gone_has_no_room() -> None:
    """As before it came."""
    state = fleet(n1=4, n2=4)
    bound = bound_of(state, [2, 2, 2])
    bound.look(["n1", "n2"])
    assert bound.pods == 3
    state.drop_node("n2")
    bound.look(["n2"])
    assert bound.pods == 2


@pytest.mark.parametrize(
    ("free", "counts", "pods"),
    [((2, 2, 2), [3, 1], 1), ((4, 0, 0), [2, 2, 3], 2), ((4, 3, 0), [2, 2, 3], 3), ((1, 1, 1), [1], 1)],
)
def test_members_of_several_kinds_share_the_devices_of_a_node(
    free: tuple[int, ...], counts: list[int], pods: int
) -> None:
    """Each member has all of its devices on one node, and no device is counted for two."""
    bound = bound_of(fleet(**dict(zip(NODES, free, strict=True))), counts)
    bound.look(NODES)
    assert bound.pods == pods
