"""What others take while a gang is placed in steps is not given to its members, too."""

import pytest

from apportion.allocator.gang.members import GangAnswer, GangServed, Member
from apportion.allocator.gang.place import place_gang
from apportion.allocator.gang.placed import PlacedMembers
from apportion.allocator.state import State
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from apportion.dra.quantity import Quantity
from tests.allocator.builders import GPU, chips, cluster, device, device_slice
from tests.allocator.gangs import Demands


def placed_while(state: State, kind: str, taken: DeviceResult) -> GangAnswer:
    """Place two members that want a device each; others take something once the first of them is placed."""
    demands = Demands(state, (1, 1), kinds={0: kind, 1: kind})
    with PlacedMembers(state, demands) as placed:
        steps = place_gang(placed, [Member(), Member()], enough=2)
        next(steps)
        assert [decision.node for decision in placed.decisions.values()] == ["n1"]
        state.hold("others", [taken])
        while True:
            try:
                next(steps)
            except StopIteration as end:
                answer: GangAnswer = end.value
                return answer


def nodes_of(answer: GangAnswer) -> list[str]:
    assert isinstance(answer, GangServed), answer
    return [decision.node for decision in answer.decisions if decision is not None]


def test_a_member_loses_its_partition_where_others_take_the_card_that_it_is_cut_from() -> None:
    """No device is held twice, but the card's counters are overdrawn."""
    state = cluster(*chips("n1"), *chips("n2"), nodes=("n1", "n2"))
    whole = DeviceResult("r", DeviceId(GPU, "n1", "chip-0-whole"))

    assert nodes_of(placed_while(state, "part", whole)) == ["n2", "n2"]


@pytest.mark.parametrize(
    "taken",
    [
        DeviceResult(
            "r", DeviceId(GPU, "n1", "gpu-0"), share_id="s", consumed={"memory": Quantity.parse("3")}
        ),
        DeviceResult("r", DeviceId(GPU, "n1", "gpu-0")),
    ],
    ids=["share", "whole"],
)
def test_a_member_loses_its_share_where_others_leave_too_little_of_the_device(taken: DeviceResult) -> None:
    """They take so much of its capacity that both do not fit, or all of it."""
    policy = {"default": "2", "validValues": ["2", "3"]}
    shared = device(
        "gpu-0", allowMultipleAllocations=True, capacity={"memory": {"value": "4", "requestPolicy": policy}}
    )
    state = cluster(*(device_slice(name, name, [shared]) for name in ("n1", "n2")), nodes=("n1", "n2"))

    assert nodes_of(placed_while(state, "gpu", taken)) == ["n2", "n2"]
