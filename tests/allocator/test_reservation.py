"""Where demands that do not fit now fit first: against every node at every moment, tried one by one."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.allocator.allocate import allocate, decide
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.future import Ending
from apportion.allocator.gang.members import Member
from apportion.allocator.reservation import ReservationPlan, plan_reservation
from apportion.allocator.state import State
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from tests.allocator.builders import GPU, chips, claim, cluster, device, device_request, device_slice

pytestmark = pytest.mark.slow

NOW = 10.0
_LATER = st.sampled_from([None, 11.0, 12.0, 13.0, 14.0])


@dataclass(frozen=True)
class World:
    """Nodes with devices, and who holds them until when: one row of devices for each holder, by node."""

    kinds: Mapping[str, str]
    """`gpu`: four devices; `chip`: two chips of a whole or four parts each."""
    held: Mapping[str, tuple[tuple[float | None, tuple[str, ...]], ...]]

    def state(self, over: Mapping[str, int] | None = None) -> State:
        """Return a state in which the first endings of each node have come (`over`; None: no ending of any)."""
        slices = []
        for name, kind in self.kinds.items():
            if kind == "chip":
                slices += chips(name, 2)
            else:
                slices.append(device_slice(name, name, [device(f"gpu-{n}") for n in range(4)]))
        made = cluster(*slices, nodes=tuple(self.kinds))
        for name, endings in self.endings().items():
            for ending in endings[(over or {}).get(name, 0) :]:
                for key, results in ending.held:
                    made.hold(key, results)
        return made

    def endings(self) -> dict[str, list[Ending]]:
        """Return the endings of each node, in their order."""
        found = {}
        for name, rows in self.held.items():
            endings = [
                Ending(at, ((f"{name}/{number}", tuple(_result(name, each) for each in devices)),))
                for number, (at, devices) in enumerate(rows)
            ]
            found[name] = sorted(
                endings, key=lambda each: (math.inf if each.at is None else each.at, each.devices)
            )
        return found


class OnNode:
    """Demands of members that ask for one claim each; every node could take them."""

    def __init__(self, world: World, wanted: Sequence[Demand]) -> None:
        self._world = world
        self._wanted = wanted

    def of(self, member: int, node: str) -> Demand:
        return Demand(self._wanted[member].claims, frozenset({node}))

    def suiting(self, _member: int, _placed: object) -> None:
        return None

    def has_room(self, _member: int, _node: str, _ended: int, _placed: Sequence[int]) -> bool:
        return True

    def nodes(self, _member: int) -> Sequence[str]:
        return list(self._world.kinds)


def _result(node: str, name: str) -> DeviceResult:
    return DeviceResult("r", DeviceId(GPU, node, name))


@st.composite
def worlds(draw: st.DrawFn) -> World:
    kinds = {f"n{n}": draw(st.sampled_from(["gpu", "gpu", "chip"])) for n in range(draw(st.integers(1, 3)))}
    held = {}
    for name, kind in kinds.items():
        if kind == "gpu":
            free = [f"gpu-{n}" for n in range(4)]
        else:
            free = []
            for chip in range(2):
                whole = draw(st.booleans())
                parts = [f"chip-{chip}-part-{n}" for n in range(4)]
                free += [f"chip-{chip}-whole"] if whole else parts
        rows = []
        while free and draw(st.integers(0, 5)):
            taken = free[: draw(st.integers(1, 2))]
            free = free[len(taken) :]
            rows.append((draw(_LATER), tuple(taken)))
        held[name] = tuple(rows)
    return World(kinds, held)


REQUESTS = st.one_of(
    st.integers(1, 4).map(lambda count: device_request(kind="gpu", count=count)),
    st.integers(1, 2).map(lambda count: device_request(kind="whole", count=count)),
    st.integers(1, 6).map(lambda count: device_request(kind="part", count=count)),
)


def _order(at: float | None, devices: int) -> tuple[float, int]:
    return (math.inf if at is None else at, devices)


def _by_trying(world: World, wanted: Demand) -> tuple[float, int] | None:
    """Return when the demand fits first, and how many devices have to become free for it; by trying everything."""
    best: tuple[float, int] | None = None
    for node, endings in world.endings().items():
        for count in range(len(endings) + 1):
            answer = allocate(
                world.state({node: count}), Demand(wanted.claims, frozenset({node})), reuse=False
            )
            if isinstance(answer, Decision):
                over = endings[:count]
                unknown = any(each.at is None for each in over)
                at = None if unknown else max([NOW] + [each.at for each in over if each.at is not None])
                found = _order(at, sum(each.devices for each in over))
                best = found if best is None else min(best, found)
                break
    return best


def _plan(
    world: World,
    state: State,
    wanted: Sequence[Demand],
    kind: object = None,
    known: Decision | None = None,
) -> ReservationPlan | None:
    members = [Member(kind=kind) for _ in wanted]
    return plan_reservation(
        state, world.endings(), members, OnNode(world, wanted), enough=len(wanted), now=NOW, known=known
    )


@given(worlds(), REQUESTS)
@settings(max_examples=60, deadline=None)
def test_a_demand_is_planned_where_it_fits_first_else_where_the_fewest_devices_have_to_become_free(
    world: World, request: dict[str, object]
) -> None:
    wanted, state = Demand((claim("head", request),)), world.state()
    plan = _plan(world, state, [wanted])
    expected = _by_trying(world, wanted)
    if plan is None:
        assert expected is None
        return
    [place] = plan.places
    sizes = {key: len(results) for rows in world.endings().values() for e in rows for key, results in e.held}
    assert _order(plan.start, sum(sizes[key] for key in place.awaited)) == expected


@given(worlds(), REQUESTS, st.integers(1, 3))
@settings(max_examples=50, deadline=None)
def test_planning_leaves_the_state_as_it_was(world: World, request: dict[str, object], count: int) -> None:
    """The same holders, and the same answers."""
    state, fresh = world.state(), world.state()
    wanted = [Demand((claim(f"m{n}", request),)) for n in range(count)]
    _plan(world, state, wanted, "one")
    for endings in world.endings().values():
        for ending in endings:
            for _, results in ending.held:
                for result in results:
                    assert state.holders(result.device) == fresh.holders(result.device)
    assert decide(state, wanted[0]) == decide(fresh, wanted[0])


@given(worlds(), REQUESTS, st.integers(2, 4))
@settings(max_examples=50, deadline=None)
def test_members_of_a_group_are_planned_beside_each_other_and_all_fit_once_the_endings_have_come(
    world: World, request: dict[str, object], count: int
) -> None:
    """No device is planned for two, and who waits for nothing unknown fits at the start, with all others held."""
    state = world.state()
    wanted = [Demand((claim(f"m{n}", request),)) for n in range(count)]
    plan = _plan(world, state, wanted, "one")
    if plan is None:
        return
    assert len(plan.places) == count
    devices = [result.device for result in plan.results]
    assert len(devices) == len(set(devices))
    awaited = {key for place in plan.places for key in place.awaited}
    for endings in world.endings().values():
        for ending in endings:
            for key, _ in ending.held:
                if key in awaited:
                    state.release(key)
    for place in plan.places:
        answer = allocate(state, Demand(wanted[place.member].claims, frozenset({place.decision.node})))
        assert isinstance(answer, Decision)
        state.hold(f"m{place.member}", answer.allocations[0].results)


@given(worlds(), st.integers(1, 3), st.integers(2, 3))
@settings(max_examples=50, deadline=None)
def test_a_group_of_equal_members_is_planned_for_the_first_moment_at_which_all_fit(
    world: World, devices: int, count: int
) -> None:
    wanted = [Demand((claim(f"m{n}", device_request(kind="gpu", count=devices)),)) for n in range(count)]
    plan = _plan(world, world.state(), wanted, "one")
    moments = [NOW, *sorted({at for rows in world.held.values() for at, _ in rows if at is not None})]
    for moment in moments:
        over = {
            node: sum(each.at is not None and each.at <= moment for each in endings)
            for node, endings in world.endings().items()
        }
        state, served = world.state(over), 0
        for one in wanted:
            decision = decide(state, one)
            if decision is not None:
                state.hold(one.claims[0].name, decision.allocations[0].results)
                served += 1
        if served == count:
            assert plan is not None
            assert plan.start == moment
            return
    assert plan is None or plan.start is None


def test_a_node_without_room_for_the_pods_is_left_out() -> None:
    """However early its devices become free."""
    world = World(
        {"n0": "gpu", "n1": "gpu"},
        {"n0": ((11.0, ("gpu-0", "gpu-1")),), "n1": ((13.0, ("gpu-0", "gpu-1")),)},
    )

    class Full(OnNode):
        def has_room(self, _member: int, node: str, _ended: int, _placed: Sequence[int]) -> bool:
            return node != "n0"

    wanted = Demand((claim("head", device_request(count=4)),))
    full = Full(world, [wanted])
    plan = plan_reservation(world.state(), world.endings(), [Member()], full, enough=1, now=NOW)
    assert plan is not None
    assert (plan.nodes, plan.start) == ({"n1"}, 13.0)
    assert plan.places[0].awaited == ("n1/0",)


@given(worlds(), REQUESTS, st.data())
@settings(max_examples=100, deadline=None)
def test_what_was_chosen_before_makes_no_other_plan(
    world: World, request: dict[str, object], data: st.DataObject
) -> None:
    """Some that held devices are gone since, others have some, of whom nobody knows when they end."""
    wanted = [Demand((claim("c", request),))]
    if (former := _plan(world, world.state(), wanted)) is None:
        return
    [known] = [place.decision for place in former.places]
    stays = st.sampled_from([True, True, False])
    held = {node: tuple(row for row in rows if data.draw(stays)) for node, rows in world.held.items()}
    later = World(world.kinds, held)
    state = later.state()
    if data.draw(st.booleans()):
        view = state.view(known.node)
        devices = [view.id_of(index) for index in range(len(view.devices))]
        state.hold("others", [DeviceResult("r", data.draw(st.sampled_from(devices)))])
    assert _plan(later, state, wanted, known=known) == _plan(later, state, wanted)


def test_a_node_changes_once_when_its_endings_come_and_once_when_they_are_undone() -> None:
    """However many claims hold its devices: each change is read by all that follow the state."""
    changes = []
    devices = [f"gpu-{n}" for n in range(4)]
    for size in (4, 2, 1):
        rows = tuple((11.0 + at, tuple(devices[at : at + size])) for at in range(0, 4, size))
        world = World({"n0": "gpu"}, {"n0": rows})
        state, wanted = world.state(), Demand((claim("c", device_request(kind="gpu", count=4)),))
        before = state.moment
        assert _plan(world, state, [wanted])
        changes.append(state.moment - before)
    assert changes == [2, 2, 2]


def test_where_nobody_knows_when_the_fewest_devices_have_to_become_free() -> None:
    """A known moment, however late, comes before."""
    held = {
        "n0": ((None, ("gpu-0",)), (None, ("gpu-1", "gpu-2"))),
        "n1": ((None, ("gpu-0", "gpu-1")),),
        "n2": ((None, ("gpu-0",)), (99.0, ("gpu-1", "gpu-2", "gpu-3"))),
    }
    found = {}
    for count in (3, 4):
        world = World(dict.fromkeys(held, "gpu"), held)
        plan = _plan(world, world.state(), [Demand((claim("head", device_request(count=count)),))])
        assert plan is not None
        found[count] = [*plan.nodes], plan.start
    assert found == {3: (["n2"], 99.0), 4: (["n1"], None)}
