"""The demands of a gang are served together or not at all."""

import random
from collections.abc import Mapping, Sequence
from itertools import product

import pytest

from apportion.allocator.decision import Decision
from apportion.allocator.gang.domains import GroupLadder, GroupRung
from apportion.allocator.gang.members import DeviceShortage, DomainShortage, GangRefused, GangServed, Member
from apportion.allocator.gang.place import MOST_ASKED
from apportion.allocator.state import State
from tests.allocator.gangs import Answer, Demands, answer_of, fleet


def ask(
    state: State,
    counts: Sequence[int],
    *,
    enough: int | None = None,
    nodes: Mapping[int, frozenset[str]] | None = None,
    at_most: int | None = None,
) -> Answer:
    """Allocate one claim per member. `nodes`: allowed nodes by member; `at_most`: members per node."""
    demands = Demands(state, counts, nodes or {}, at_most)
    return answer_of(demands, [Member() for _ in counts], len(counts) if enough is None else enough)


def nodes_of(answer: Answer) -> list[str]:
    """Return the nodes of the members that are served."""
    assert isinstance(answer, GangServed), answer
    return [decision.node for decision in answer.decisions if decision is not None]


def free(state: State) -> int:
    """Return the number of devices that nobody holds."""
    return sum((state.view(name).base & ~state.view(name).exclusive).bit_count() for name in state.names())


def test_each_member_is_allocated_on_a_node_where_it_fits() -> None:
    """No device is allocated to two members."""
    state = fleet(n1=3, n2=2)

    answer = ask(state, (2, 2, 1))

    assert sorted(nodes_of(answer)) == ["n1", "n1", "n2"]
    assert isinstance(answer, GangServed)
    taken = [
        result.device
        for one in answer.decisions
        if one
        for allocation in one.allocations
        for result in allocation.results
    ]
    assert len(set(taken)) == len(taken) == 5


def test_if_one_member_is_refused_no_member_is_served() -> None:
    """The answer names the refused member and the number served before it; the state is unchanged."""
    state = fleet(n1=3, n2=3)

    answer = ask(state, (2, 2, 2))

    assert isinstance(answer, GangRefused)
    assert answer.member == 2
    assert answer.refusal is not None
    assert answer.served == 2
    assert free(state) == 6


def test_members_beyond_the_minimum_may_be_refused() -> None:
    """As many as fit are served, at least `enough`."""
    state = fleet(n1=3, n2=2)

    answer = ask(state, (2, 2, 2), enough=2)

    assert isinstance(answer, GangServed)
    assert [decision is not None for decision in answer.decisions] == [True, True, False]
    assert free(state) == 5


def test_no_more_members_are_served_than_may_be() -> None:
    """Of an elastic group; a member with more pods than are left is passed over."""
    demands = Demands(fleet(n1=4, n2=4), (1, 1, 1, 1, 1))
    members = [Member(pods) for pods in (1, 1, 2, 1, 1)]

    answer = answer_of(demands, members, 2, most=3)

    assert isinstance(answer, GangServed)
    assert [decision is not None for decision in answer.decisions] == [True, True, False, True, False]


def test_a_refused_member_is_tried_first_in_the_next_attempt() -> None:
    """The second member is allowed one node only, which the first member takes in the first attempt."""
    state = fleet(n1=1, n2=4)

    answer = ask(state, (1, 1), nodes={1: frozenset({"n1"})})

    assert nodes_of(answer) == ["n2", "n1"]


def test_a_member_without_allowed_nodes_is_refused_without_a_diagnosis() -> None:
    """No explanation of devices exists in that case."""
    state = fleet(n1=4, n2=4)

    answer = ask(state, (1, 1, 1), at_most=1)

    assert isinstance(answer, GangRefused)
    assert (answer.member, answer.refusal, answer.served) == (2, None, 2)


@pytest.mark.parametrize("ladder", [None, GroupLadder((GroupRung("zone", required=True),))])
def test_members_that_need_the_company_of_a_later_one_are_served_once_it_is_placed(
    ladder: GroupLadder | None,
) -> None:
    """Alone, no node fits their pods: neither their order nor the bounds of a ladder say that no node ever does."""
    demands = Demands(fleet(n1=1, n2=3), (1, 1, 1), company={0: 2, 1: 2}, nodes={2: frozenset({"n2"})})
    answer = answer_of(demands, [Member(kind=0), Member(kind=0), Member()], 3, ladder=ladder)
    assert nodes_of(answer) == ["n2", "n2", "n2"]

    demands = Demands(fleet(n1=1, n2=2), (1, 1, 1), company={0: 2, 1: 2}, nodes={2: frozenset({"n2"})})
    assert isinstance(
        answer_of(demands, [Member(kind=0), Member(kind=0), Member()], 3, ladder=ladder),
        GangRefused | DomainShortage,
    )


def test_two_equal_calls_return_the_same_answer() -> None:
    """The first call leaves no trace in the state."""
    state = fleet(n1=3, n2=2, n3=4)

    first, second = ask(state, (2, 1, 3)), ask(state, (2, 1, 3))

    assert first == second
    assert isinstance(first, GangServed)
    assert all(isinstance(each, Decision) for each in first.decisions)


@pytest.mark.slow
def test_small_gangs_are_served_if_brute_force_finds_an_assignment() -> None:
    """At least 99 of 100 verdicts equal brute force; no gang is served that cannot be, and no node is overcommitted."""
    rng = random.Random(7)  # noqa: S311
    agree = solvable_cases = 0
    cases = 150
    for _ in range(cases):
        names = [f"n{index}" for index in range(rng.randint(2, 4))]
        room = {name: rng.randint(0, 4) for name in names}
        counts = [rng.randint(1, 3) for _ in range(rng.randint(2, 5))]
        allowed = {
            index: frozenset(rng.sample(names, rng.randint(1, len(names)))) for index in range(len(counts))
        }
        enough = rng.choice([len(counts), len(counts), max(1, len(counts) - 1)])
        possible = solvable(room, counts, allowed, enough)

        answer = ask(fleet(**room), counts, enough=enough, nodes=allowed)

        solvable_cases += possible
        assert possible or not isinstance(answer, GangServed)
        if isinstance(answer, GangServed):
            for name in names:
                used = sum(
                    counts[index]
                    for index, one in enumerate(answer.decisions)
                    if one is not None and one.node == name
                )
                assert used <= room[name]
        agree += possible == isinstance(answer, GangServed)
    print(f"\ngangs: {agree} of {cases} verdicts equal brute force ({solvable_cases} can be served)")  # noqa: T201
    assert 20 < solvable_cases < cases - 20
    assert agree >= cases * 99 // 100


def test_a_gang_that_needs_more_devices_than_are_free_is_refused_by_counting() -> None:
    """No member is searched; of members beyond the minimum the largest do not count."""
    state = fleet(n1=3, n2=2, n3=4)
    demands = Demands(state, (2, 2, 3, 3))

    answer = answer_of(demands, [Member(kind=count) for count in demands.counts], 4)

    assert answer == DeviceShortage(needed=10, free=9)
    assert demands.asked == 2  # one of each kind
    assert ask(state, (4, 4, 2, 2), enough=3) != DeviceShortage(8, 9)
    assert ask(state, (4, 4, 4, 2), enough=3) == DeviceShortage(10, 9)


def test_devices_that_only_some_members_match_do_not_hide_that_the_others_find_none() -> None:
    """Counting is a bound: where it finds enough for all together, the members are searched."""
    state = fleet(n1=4, n2=4)

    answer = ask(state, (2, 2, 2), nodes=dict.fromkeys(range(3), frozenset({"n1"})))

    assert answer == DeviceShortage(needed=6, free=4)
    assert isinstance(ask(state, (3, 3, 2), nodes=dict.fromkeys(range(2), frozenset({"n1"}))), GangRefused)


def test_a_gang_of_equal_members_is_tried_in_one_order() -> None:
    """Another order of equal members finds nothing else; a refused member speaks for those of its kind."""
    state = fleet(**{f"n{number}": 3 for number in range(20)})
    demands = Demands(state, [2] * 30)

    answer = answer_of(demands, [Member(kind="pair")] * 30, 30)

    assert isinstance(answer, GangRefused)
    assert (answer.member, answer.served) == (20, 20)
    # After each of two states of nodes was searched, it is asked anew.
    assert demands.asked <= 1 + 21 + 2

    demands = Demands(state, [2] * 30)
    served = answer_of(demands, [Member(kind="pair")] * 30, 10)
    assert len(nodes_of(served)) == 20
    # After each of two states of nodes was searched, it is asked anew.
    assert demands.asked <= 1 + 21 + 2


@pytest.mark.slow
def test_the_orders_tried_for_a_large_gang_are_bounded_by_its_members() -> None:
    """Members without a kind are all different: after the first order only so many are asked again."""
    members = MOST_ASKED // 2
    state = fleet(**{f"n{number}": 4 for number in range(members // 2)})
    demands = Demands(state, [1] * (members - 2) + [4] * 2, nodes={members - 1: frozenset({"n0"})})

    answer = answer_of(demands, [Member() for _ in range(members)], members)

    assert isinstance(answer, GangServed | GangRefused)
    assert demands.asked <= 2 * members + MOST_ASKED


def solvable(
    room: Mapping[str, int], counts: Sequence[int], allowed: Mapping[int, frozenset[str]], enough: int
) -> bool:
    """Try every assignment of members to allowed nodes, or to none."""
    for placement in product(*[(*sorted(allowed[index]), "") for index in range(len(counts))]):
        if sum(1 for node in placement if node) >= enough and all(
            sum(count for count, node in zip(counts, placement, strict=True) if node == name) <= free_
            for name, free_ in room.items()
        ):
            return True
    return False
