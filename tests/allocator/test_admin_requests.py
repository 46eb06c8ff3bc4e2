"""What a claim looks at with admin access it does not take, wherever is counted what a decision takes."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.queue import size_of
from apportion.allocator.reservation import Place, ReservationPlan
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from tests.allocator.builders import (
    GPU,
    Raw,
    chips,
    claim,
    cluster,
    device_at,
    device_request,
    device_slice,
)


def held_chip() -> State:
    """Return a node with two chips, one of which somebody has."""
    state = cluster(*chips("n1", 2))
    state.hold("owner", [DeviceResult("r", DeviceId(GPU, "n1", "chip-0-whole"))])
    return state


def decided(state: State, *requests: Raw) -> Decision:
    """Return what a claim gets."""
    found = allocate(state, Demand((claim("c", *requests),)))
    assert isinstance(found, Decision)
    return found


def looking(count: int) -> Raw:
    """Return a request that looks at so many parts."""
    return device_request("look", "part", count, adminAccess=True)


@given(taken=st.integers(1, 3), looked=st.integers(1, 3))
def test_what_is_looked_at_has_no_size(taken: int, looked: int) -> None:
    """The last that wait are decided together by sizes; a monitor seemed to take what it looks at."""
    state = held_chip()
    found = decided(state, looking(looked), device_request("take", "part", taken))
    assert len(found.allocations[0].results) == taken + looked
    assert size_of(state, found) == Fraction(taken, 4)
    assert size_of(state, decided(state, looking(looked))) == 0


def test_what_is_looked_at_is_not_reserved() -> None:
    """Its owner keeps it, so that a reservation with it was never free, and ended others of the same device."""
    found = decided(held_chip(), looking(2), device_request("take", "part"))
    plan = ReservationPlan((Place(0, found, None, ()),), None)
    assert [each.request for each in plan.results] == ["take"]


def test_a_later_claim_gets_the_device_that_admin_access_need_not_take() -> None:
    """Two GPUs, and three claims: one, one with admin access, one. The second may look at the first one's GPU."""
    rows = [device_at(0, 1, 1), device_at(1, 0, 0), device_at(2, 0, 0, "nic")]
    demand = Demand(
        (
            claim("first", device_request()),
            claim("monitor", device_request(adminAccess=True)),
            claim("last", device_request()),
        )
    )
    found = {
        strategy.name: isinstance(
            allocate(cluster(device_slice("s", "n1", rows)), demand, Terms(strategy)), Decision
        )
        for strategy in Strategy
    }
    assert found == dict.fromkeys(found, True)
