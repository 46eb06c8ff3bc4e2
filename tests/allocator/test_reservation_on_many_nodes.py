"""A place is found also where counting promises too much on each of many nodes, so that a plan cannot ask about all moments of all nodes."""

import math
from collections.abc import Sequence

import pytest

from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.future import Ending
from apportion.allocator.gang.members import Member
from apportion.allocator.reservation import MOST_ASKED, plan_reservation
from apportion.allocator.state import State
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from tests.allocator.builders import GPU, chips, claim, cluster, device, device_request, device_slice

NOW = 10.0
PARTS = 4
NODES = MOST_ASKED // (2 * PARTS - 2) + 10
"""With two chips each: counting promises a whole one after the first of its parts, and six times it is not free."""


class Anywhere:
    """Demands that every node could take."""

    def __init__(self, nodes: Sequence[str], wanted: Sequence[Demand]) -> None:
        self._nodes, self._wanted = nodes, wanted

    def of(self, member: int, node: str) -> Demand:
        return Demand(self._wanted[member].claims, frozenset({node}))

    def suiting(self, _member: int, _placed: object) -> None:
        return None

    def has_room(self, _member: int, _node: str, _ended: int, _placed: Sequence[int]) -> bool:
        return True

    def nodes(self, _member: int) -> Sequence[str]:
        return self._nodes


def _ending(node: str, chip: int, part: int, at: float | None) -> Ending:
    device = DeviceId(GPU, node, f"chip-{chip}-part-{part}")
    return Ending(at, ((f"{node}/{chip}/{part}", (DeviceResult("r", device),)),))


def _full(names: Sequence[str]) -> State:
    """Return nodes of two chips each, of which somebody has each part."""
    state = cluster(*(piece for name in names for piece in chips(name, 2, PARTS)), nodes=tuple(names))
    for name in names:
        for chip in range(2):
            for part in range(PARTS):
                ending = _ending(name, chip, part, None)
                for key, results in ending.held:
                    state.hold(key, results)
    return state


@pytest.mark.parametrize("knows", [False, True])
@pytest.mark.parametrize("members", [1, 3])
def test_a_place_is_found_on_however_many_nodes(members: int, *, knows: bool) -> None:
    """Parts of both chips of a node end in turns: a whole one is free after seven of them; what is chosen is free by then."""
    names = [f"n{number}" for number in range(NODES)]
    state = _full(names)
    endings = {
        name: [
            _ending(name, chip, part, 11.0 + 2 * part + chip if knows else None)
            for part in range(PARTS)
            for chip in range(2)
        ]
        for name in names
    }
    wanted = [Demand((claim(f"c{n}", device_request(kind="whole")),)) for n in range(members)]
    kinds = [Member(1, kind="whole") for _ in wanted]

    plan = plan_reservation(state, endings, kinds, Anywhere(names, wanted), enough=members, now=NOW)

    assert plan is not None
    assert len(plan.places) == members
    assert (plan.start is None) is not knows
    for place in plan.places:
        assert isinstance(place.decision, Decision)
        assert len(place.awaited) in (2 * PARTS - 1, 2 * PARTS)
    if members == 1:
        assert len(plan.places[0].awaited) == 2 * PARTS - 1
        assert (plan.start or math.inf) == (17.0 if knows else math.inf)


def test_what_several_nodes_reach_has_not_ended_on_one_because_another_was_asked_about() -> None:
    """Both nodes have GPUs free before the network device that both reach is."""
    state = cluster(
        device_slice("net", None, [device("net-0", "net")]),
        *(device_slice(name, name, [device(f"gpu-{n}") for n in range(2)]) for name in ("n0", "n1")),
        nodes=("n0", "n1"),
    )
    net = Ending(20.0, (("net", (DeviceResult("r", DeviceId(GPU, "net", "net-0")),)),))
    endings = {}
    for name, at in (("n0", 11.0), ("n1", 12.0)):
        gpus = tuple(DeviceResult("r", DeviceId(GPU, name, f"gpu-{n}")) for n in range(2))
        endings[name] = [Ending(at, ((name, gpus),)), net]
        state.hold(name, gpus)
    for key, results in net.held:
        state.hold(key, results)
    wanted = Demand((claim("c", device_request("g"), device_request("n", kind="net")),))

    demands = Anywhere(["n0", "n1"], [wanted])
    plan = plan_reservation(state, endings, [Member()], demands, enough=1, now=NOW, wide=True)

    assert plan is not None
    assert plan.start == 20.0
