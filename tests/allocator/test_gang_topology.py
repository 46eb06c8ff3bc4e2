"""Members of a gang go to nodes that are close together, by labels of nodes; brute force says how close it goes."""

from collections.abc import Mapping, Sequence
from itertools import combinations, groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.allocator.gang.closest import MOST_TRIED
from apportion.allocator.gang.domains import GroupLadder, GroupRung
from apportion.allocator.gang.members import DeviceShortage, DomainShortage, GangServed, Member
from apportion.allocator.state import State
from tests.allocator.builders import cluster, device, device_slice
from tests.allocator.gangs import Answer, Demands, answer_of, fleet

RACK, BLOCK = GroupRung("rack"), GroupRung("block")
Nodes = Sequence[tuple[str, int]]
"""The rack of each node, empty for none, and its free devices. Racks a and b are in block x, the others in block y."""

nodes = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", "d", ""]), st.integers(0, 4)), min_size=1, max_size=7
)
"""Nodes of up to five domains."""


def state_of(world: Nodes) -> State:
    state = fleet(**{f"n{number}": free for number, (_, free) in enumerate(world)})
    for number, (rack, _) in enumerate(world):
        state.put_node(f"n{number}", {"rack": rack, "block": block_of(rack)} if rack else {})
    return state


def block_of(rack: str) -> str:
    return "x" if rack in "ab" else "y"


def places(world: Nodes, count: int) -> dict[str, int]:
    """Return how many members with so many devices each rack could take, "" for the nodes of none."""
    found: dict[str, int] = {}
    for rack, free in world:
        found[rack] = found.get(rack, 0) + free // count
    return found


def fewest(places: Mapping[str, int], members: int) -> int | None:
    """Return how many domains are needed, by trying every choice; None: all of them do not do."""
    return next(
        (
            size
            for size in range(1, len(places) + 1)
            for chosen in combinations(places, size)
            if sum(places[each] for each in chosen) >= members
        ),
        None,
    )


def ask(
    state: State,
    members: int,
    count: int,
    *rungs: GroupRung,
    occupied: Sequence[str] = (),
    enough: int | None = None,
) -> Answer:
    return answer_of(
        Demands(state, [count] * members),
        [Member(kind=count)] * members,
        members if enough is None else enough,
        ladder=GroupLadder(rungs, frozenset(occupied)),
    )


def racks_of(answer: Answer, world: Nodes) -> list[str]:
    """Return the rack of each member that is served."""
    assert isinstance(answer, GangServed), answer
    return [world[int(each.node[1:])][0] for each in answer.decisions if each is not None]


@pytest.mark.slow
@settings(max_examples=60)
@given(nodes, st.integers(1, 6), st.integers(1, 2))
def test_a_required_domain_takes_all_members_or_nobody_is_served(
    world: Nodes, members: int, count: int
) -> None:
    """If, and only if, one domain has room for all; of several that have, the one with the least room is taken."""
    room = {rack: most for rack, most in places(world, count).items() if rack}
    state = state_of(world)

    answer = ask(state, members, count, GroupRung("rack", required=True))

    holding = [most for most in room.values() if most >= members]
    if holding:
        [rack] = set(racks_of(answer, world))
        assert room[rack] == min(holding)
    elif isinstance(answer, DomainShortage):
        assert (answer.room, answer.labels) == (max(room.values(), default=0), ("rack",))
    else:
        assert isinstance(answer, DeviceShortage)


@pytest.mark.slow
@settings(max_examples=60)
@given(nodes, st.integers(1, 8), st.integers(1, 2))
def test_a_preferred_domain_is_shared_by_as_few_others_as_it_goes(
    world: Nodes, members: int, count: int
) -> None:
    """Nodes of no domain are the last; whether all are served depends on the devices alone. Neighbours stay together."""
    everywhere = places(world, count)
    room = {rack: most for rack, most in everywhere.items() if rack}

    answer = ask(state_of(world), members, count, RACK)

    assert isinstance(answer, GangServed) == (sum(everywhere.values()) >= members)
    if isinstance(answer, GangServed):
        racks = racks_of(answer, world)
        assert len([rack for rack, _ in groupby(racks)]) == len(set(racks))
        needed = fewest(room, members)
        if needed is not None:
            assert len(set(racks)) == needed


@pytest.mark.slow
@settings(max_examples=60)
@given(nodes, st.integers(1, 8))
def test_the_closest_label_that_has_a_domain_for_all_is_taken(world: Nodes, members: int) -> None:
    """A rack; else a block, and in it as few racks as it goes; else as few blocks as it goes."""
    racks = {rack: most for rack, most in places(world, 1).items() if rack}
    blocks: dict[str, int] = {}
    for rack, most in racks.items():
        blocks[block_of(rack)] = blocks.get(block_of(rack), 0) + most

    answer = ask(state_of(world), members, 1, RACK, BLOCK)

    if sum(blocks.values()) < members:
        return
    taken = set(racks_of(answer, world))
    if fewest(racks, members) == 1:
        assert len(taken) == 1
        return
    taken_blocks = {block_of(rack) for rack in taken}
    assert len(taken_blocks) == fewest(blocks, members)
    if len(taken_blocks) == 1:
        own = {rack: most for rack, most in racks.items() if block_of(rack) in taken_blocks}
        assert len(taken) == fewest(own, members)


@pytest.mark.slow
@settings(max_examples=50)
@given(nodes, st.lists(st.integers(1, 3), min_size=2, max_size=4))
def test_members_that_differ_are_in_one_required_domain_or_nowhere(world: Nodes, counts: list[int]) -> None:
    """They are served together if brute force finds a place for each on the nodes of one domain."""
    answer = answer_of(
        Demands(state_of(world), counts),
        [Member(kind=count) for count in counts],
        len(counts),
        ladder=GroupLadder((GroupRung("rack", required=True),)),
    )

    possible = any(
        _fits(sorted(counts, reverse=True), [free for own, free in world if own == rack]) for rack in "abcd"
    )
    assert isinstance(answer, GangServed) == possible
    if isinstance(answer, GangServed):
        assert len(set(racks_of(answer, world))) == 1


@pytest.mark.slow
@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=4),
    st.integers(0, 4),
    st.integers(0, 4),
)
def test_members_that_ask_for_other_devices_take_nothing_from_each_other(
    world: list[tuple[str, int, int]], gpus: int, nics: int
) -> None:
    """A node has room for as many as it has devices of both: a domain takes all if it has enough of each."""
    kinds = {number: "gpu" if number < gpus else "nic" for number in range(gpus + nics)}
    if not kinds:
        return
    names = tuple(f"n{number}" for number in range(len(world)))
    state = cluster(
        *(
            device_slice(
                name,
                name,
                [
                    device(f"{kind}-{n}", kind)
                    for kind, own in (("gpu", row[1]), ("nic", row[2]))
                    for n in range(own)
                ],
            )
            for name, row in zip(names, world, strict=True)
        ),
        nodes=names,
    )
    for name, (rack, _, _) in zip(names, world, strict=True):
        state.put_node(name, {"rack": rack})

    answer = answer_of(
        Demands(state, [1] * len(kinds), kinds=kinds),
        [Member(kind=kind) for kind in kinds.values()],
        len(kinds),
        ladder=GroupLadder((GroupRung("rack", required=True),)),
    )

    possible = any(
        sum(row[1] for row in world if row[0] == rack) >= gpus
        and sum(row[2] for row in world if row[0] == rack) >= nics
        for rack in "ab"
    )
    assert isinstance(answer, GangServed) == possible


def _fits(counts: Sequence[int], free: Sequence[int]) -> bool:
    if not counts:
        return True
    return any(
        left >= counts[0] and _fits(counts[1:], [*free[:number], left - counts[0], *free[number + 1 :]])
        for number, left in enumerate(free)
    )


def test_a_member_that_comes_back_goes_where_the_others_run() -> None:
    """Required: there or nowhere. Preferred: there if it goes."""
    world = [("a", 1), ("b", 0), ("b", 1), ("c", 4)]
    assert racks_of(ask(state_of(world), 1, 1, RACK, occupied=["n1"]), world) == ["b"]
    assert racks_of(ask(state_of(world), 2, 1, RACK, BLOCK, occupied=["n1"]), world) == ["b", "a"]

    full = [("a", 1), ("b", 0)]
    required = GroupRung("rack", required=True)
    assert racks_of(ask(state_of(full), 1, 1, RACK, occupied=["n1"]), full) == ["a"]
    assert ask(state_of(full), 1, 1, required, occupied=["n1"]) == DomainShortage(("rack",), (), 0)


def test_an_elastic_gang_takes_the_required_domain_with_the_most_room() -> None:
    """Where none has room for all, but one for enough."""
    world = [("a", 2), ("b", 3), ("c", 1)]
    answer = ask(state_of(world), 4, 1, GroupRung("rack", required=True), enough=2)
    assert racks_of(answer, world) == ["b", "b", "b"]


@pytest.mark.slow
def test_required_domains_that_look_large_enough_hide_none_that_is() -> None:
    """However many they are: the gang would be refused as long as they stay as they are."""
    racks = MOST_TRIED // 4 + 8
    state = fleet(**dict.fromkeys([f"n{number}" for number in range(racks + 1)], 4))
    for number in range(racks + 1):
        state.put_node(f"n{number}", {"rack": f"{min(number, racks - 1):06}"})
    demands = Demands(state, [1] * 4, at_most=3)
    members = [Member(kind=1)] * 4
    answer = answer_of(demands, members, 4, ladder=GroupLadder((GroupRung("rack", required=True),)))
    assert isinstance(answer, GangServed), answer
    nodes = {each.node for each in answer.decisions if each is not None}
    assert nodes == {f"n{racks - 1}", f"n{racks}"}
