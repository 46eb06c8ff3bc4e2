"""Compatibility groups: devices that consume one counter set are in use together only while a group is common to all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from apportion.allocator.allocate import allocate, decide
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.explain.render import render
from apportion.allocator.preemption.findvictims import find_victims
from apportion.allocator.preemption.victims import NodeVictims, Victim
from apportion.allocator.state import State
from apportion.dra.allocation import Allocation, DeviceResult
from apportion.dra.consumedcounters import written
from apportion.dra.device import DeviceId
from apportion.dra.slice import Slice
from tests.allocator.builders import GPU, amounts, claim, cluster, device, device_request, device_slice

Groups = Mapping[str, Sequence[str]]
"""Compatibility groups of what a device consumes, by counter set."""
NAMES = st.lists(st.sampled_from("mno"), max_size=3, unique=True)
CARDS = st.lists(
    st.dictionaries(st.sampled_from(("left", "right")), NAMES, min_size=1), min_size=2, max_size=5
)
STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 4)), max_size=12)


def slices(node: str, *devices: Groups) -> list[Slice]:
    """Return a node's card of two counter sets that suffice for all devices, d0 and so on; each has its name as kind."""
    sets = [{"name": name, "counters": amounts(units=100)} for name in ("left", "right")]
    rows = []
    for number, groups in enumerate(devices):
        needs = [
            {"counterSet": name, "counters": amounts(units=1)}
            | ({"compatibilityGroups": list(own)} if own else {})
            for name, own in groups.items()
        ]
        rows.append(device(f"d{number}", f"d{number}", consumesCounters=needs))
    return [
        device_slice(f"{node}-counters", node, count=2, sharedCounters=sets),
        device_slice(f"{node}-devices", node, rows, count=2),
    ]


def results(*numbers: int, node: str = "n1") -> list[DeviceResult]:
    return [DeviceResult("r", DeviceId(GPU, node, f"d{number}")) for number in numbers]


def one(number: int) -> Demand:
    return Demand((claim("c", device_request(kind=f"d{number}")),))


def served(state: State, count: int) -> list[bool]:
    """Say of each device whether a claim for it is served now."""
    return [isinstance(allocate(state, one(number)), Decision) for number in range(count)]


def expected(devices: Sequence[Groups], held: set[int]) -> list[bool]:
    """Do the same from the definition: the groups of all devices of a set have a common one; no group is a group, too."""
    found = []
    for number, groups in enumerate(devices):
        users = [devices[each] for each in (*held, number)]
        common = [
            set.intersection(*(set(user[name] or [""]) for user in users if name in user)) for name in groups
        ]
        found.append(number not in held and all(common))
    return found


@given(devices=CARDS, steps=STEPS)
def test_what_is_served_follows_from_the_groups_in_use_however_the_state_came_about(
    devices: list[Groups], steps: list[tuple[bool, int]]
) -> None:
    """Held and released one by one on one of two equal nodes; a new state, and the other node, agree."""
    state, held = cluster(*slices("n1", *devices)), set[int]()
    served(state, len(devices))
    for taken, number in steps:
        if number >= len(devices):
            continue
        if taken:
            state.hold(f"k{number}", results(number))
            held.add(number)
        else:
            state.release(f"k{number}")
            held.discard(number)
        assert served(state, len(devices)) == expected(devices, held)
    anew = cluster(*slices("n1", *devices))
    for number in held:
        anew.hold(f"k{number}", results(number))
    assert served(anew, len(devices)) == served(state, len(devices))
    state.put_node("n2", {})
    for piece in slices("n2", *devices):
        state.put_slice(piece)
    assert all(served(state, len(devices)))


def test_a_group_has_to_be_common_to_all_devices_not_to_each_two() -> None:
    state = cluster(*slices("n1", {"left": "mn"}, {"left": "no"}, {"left": "mo"}))

    def asked(count: int) -> bool:
        return isinstance(
            allocate(state, Demand((claim("c", device_request(kind="", count=count)),))), Decision
        )

    assert asked(2)
    assert not asked(3)


def test_a_withdrawn_device_keeps_its_groups_as_its_allocation_says() -> None:
    """For an operator that starts after its driver has withdrawn it (ADR 45)."""
    before = cluster(*slices("n1", {"left": "m"}, {"left": "n"}, {"left": "mn"}))
    before.hold("a", results(0))
    charged = before.charged(results(0)[0].device)
    assert charged is not None
    entries = [
        {"source": "FromClass", "opaque": each} for each in written([(results(0)[0].device, charged)], 64)
    ]
    row = {"request": "r", "driver": GPU, "pool": "n1", "device": "d0"}
    found = Allocation.from_json({"devices": {"results": [row], "config": entries}})
    counters, published = slices("n1", {"left": "m"}, {"left": "n"}, {"left": "mn"})
    state = cluster(counters, replace(published, devices=published.devices[1:]))
    state.hold("a", found.results)
    assert served(state, 3) == [False, False, True]

    before.put_slice(replace(published, devices=published.devices[1:]))
    assert served(before, 3) == [False, False, True]


def test_the_pod_whose_device_is_of_another_group_is_the_victim() -> None:
    state = cluster(*slices("n1", {"left": "m"}, {"left": "n"}, {"left": "mn"}))
    victims = []
    for number in (0, 2):
        state.hold(f"k{number}", results(number))
        victims.append(Victim(f"k{number}", 0, 1, 1, {f"k{number}": tuple(results(number))}))
    found = find_victims(state, one(1), [NodeVictims("n1", tuple(victims))])
    assert found is not None
    assert [each.key for each in found.victims] == ["k0"]
    assert decide(state, one(1)) is None


def test_a_refusal_says_that_what_is_in_use_is_of_other_groups() -> None:
    state = cluster(*slices("n1", {"left": "m"}, {"left": "n"}))
    state.hold("a", results(0))
    refused = allocate(state, one(1))
    assert not isinstance(refused, Decision)
    assert "of other compatibility groups" in render(refused.explanation)
