"""Shares that fill cards: large ones need room that small ones leave, and equal cards are tried once."""

from collections.abc import Sequence

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.search.partial import PartialSolution
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from apportion.dra.quantity import NANO, Quantity
from tests.allocator.builders import GPU, amounts, claim, cluster, device, device_request, device_slice
from tests.steps import Steps

EVERY = [Strategy.FIRST_FIT, Strategy.PACK, Strategy.SPREAD, Strategy.LEAST_FRAGMENTATION]


def shares_of(*units: int) -> Demand:
    """Return a claim for shares of so many units each."""
    rows = [
        device_request(f"r{number}", capacity={"requests": {"units": str(each)}})
        for number, each in enumerate(units)
    ]
    return Demand((claim("c", *rows),))


def cards_of(*units: int) -> State:
    """Return a node of cards with so many units each."""
    rows = [
        device(f"gpu-{number:02d}", allowMultipleAllocations=True, capacity=amounts(units=each))
        for number, each in enumerate(units)
    ]
    return cluster(device_slice("s", "n1", rows))


@pytest.mark.parametrize("strategy", EVERY)
@pytest.mark.parametrize("units", [[80] * 7, range(80, 87)], ids=["equal", "unlike"])
def test_small_shares_leave_room_for_large_ones(units: Sequence[int], strategy: Strategy) -> None:
    """Two small ones fill no card: each has to be beside a large one, of which each needs a card."""
    found = allocate(cards_of(*units), shares_of(*[35] * 7, *[45] * 7), Terms(strategy))
    assert isinstance(found, Decision), found.verdict


@pytest.mark.parametrize("strategy", EVERY)
@pytest.mark.parametrize("units", [[80] * 8, range(80, 88)], ids=["equal", "unlike"])
def test_shares_that_no_cards_have_room_for_are_refused_without_a_search(
    units: Sequence[int], strategy: Strategy
) -> None:
    """Each card has room for two."""
    with Steps(only=PartialSolution.take) as tried:
        found = allocate(cards_of(*units), shares_of(*[30] * 17), Terms(strategy))
    assert not isinstance(found, Decision)
    assert found.verdict == "none"
    assert tried.count == 0


@pytest.mark.parametrize("strategy", EVERY)
def test_equal_cards_are_tried_once(strategy: Strategy) -> None:
    """By number and sum there is room; each of the seven large shares needs a card."""
    with Steps(only=PartialSolution.take) as tried:
        found = allocate(cards_of(*[80] * 6), shares_of(*[30] * 3, *[45] * 7), Terms(strategy))
    assert not isinstance(found, Decision)
    assert found.verdict == "none"
    assert tried.count < 2_000


@pytest.mark.parametrize("strategy", EVERY)
def test_cards_of_which_others_have_unlike_shares_are_not_interchangeable(strategy: Strategy) -> None:
    """The large share fits on the last card alone."""
    state = cards_of(*[80] * 4)
    for number in range(3):
        name = DeviceId(GPU, "n1", f"gpu-{number:02d}")
        state.hold(
            f"h{number}",
            [DeviceResult("r", name, share_id=f"s{number}", consumed={"units": Quantity(30 * NANO)})],
        )
    found = allocate(state, shares_of(20, 20, 20, 20, 60), Terms(strategy))
    assert isinstance(found, Decision), found.verdict
    assert found.allocations[0].results[-1].device.name == "gpu-03"
