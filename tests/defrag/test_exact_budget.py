"""The exact search for moves ends at its budget, wherever its choices are: without one it would not within the time that any test has."""

from apportion.allocator.defrag.exactsearch import ExactSearch, Occupant
from apportion.allocator.defrag.moves import Movable, RoomFor
from apportion.allocator.defrag.packing import Place
from apportion.allocator.defrag.plan import Planning
from apportion.allocator.demand import Demand
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from tests.allocator.builders import GPU, claim, cluster, device, device_request, device_slice

COUNT = 40


def test_those_that_take_the_place_of_a_large_pod_are_not_tried_in_every_combination() -> None:
    """Forty pods with a CPU each are on the only node for a pod that needs twenty: 10^11 sets of them would do."""
    rows = [device(f"gpu-{number}") for number in range(COUNT)]
    state = cluster(
        device_slice("n1", "n1", [*rows, device("gpu-free")]),
        device_slice("n2", "n2", rows),
        nodes=("n1", "n2"),
    )
    movables = []
    for number in range(COUNT):
        asked = Demand((claim(f"c{number}", device_request()),))
        holds = {f"c{number}": (DeviceResult("r", DeviceId(GPU, "n1", f"gpu-{number}")),)}
        state.hold(*next(iter(holds.items())))
        movables.append(Movable(f"c{number}", "n1", asked, holds, 1, 1, {"cpu": 1}))
    room = {"n1": {"cpu": 0}, "n2": {"cpu": COUNT}}
    goal = RoomFor(Demand((claim("large", device_request()),), nodes=frozenset(("n1",))), {"cpu": 20})
    found = Planning(state, movables, room).plan(goal)
    assert found is not None
    assert (found.pods, found.proven) == (20, False)


def test_moves_without_an_order_are_not_tried_in_every_order() -> None:
    """Two that wait for each other, and forty that may move at any time."""
    wanted, free, temporary = range(COUNT + 1), range(COUNT + 1, 2 * COUNT + 1), 2 * COUNT + 1
    second = temporary + 1
    occupants = [_occupant({number: 1}, {free[number]: 1}) for number in range(COUNT)]
    occupants.append(_occupant({COUNT: 1, temporary: 1}, {second: 1}))
    occupants.append(_occupant({second: 1}, {temporary: 1}))
    left = [0] * (second + 1)
    for number in free:
        left[number] = 1
    search = ExactSearch(left, occupants, [[Place("n", (), dict.fromkeys(wanted, 1))]])
    assert search.best(COUNT + 2) is None
    assert not search.proven


def _occupant(now: dict[int, int], then: dict[int, int]) -> Occupant:
    return Occupant(1, 1, Place("n", (), now), [Place("n", (), then)])
