"""Whether a key keeps devices from others: without one that does not, the state answers the same."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.devicecount import may_serve
from apportion.allocator.state import State
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from tests.allocator.builders import GPU, chips, claim, cluster, device_request

DEVICES = [f"chip-{chip}-{part}" for chip in range(2) for part in ("whole", *(f"part-{n}" for n in range(4)))]
"""Two chips, as a whole or in four parts."""
REQUESTS = [device_request(kind=kind, count=count) for kind in ("whole", "part") for count in range(1, 9)]


def _result(name: str) -> DeviceResult:
    return DeviceResult("r", DeviceId(GPU, "n0", name))


@pytest.mark.slow
@given(st.lists(st.sampled_from(DEVICES), unique=True), st.lists(st.sampled_from(DEVICES), unique=True))
@settings(max_examples=80, deadline=None)
def test_without_a_key_that_keeps_nothing_from_others_every_answer_is_the_same(
    used: list[str], reserved: list[str]
) -> None:
    """Also where what is reserved shares counters with what is used; one that keeps a device says so, and for whom these may be enough."""
    state = cluster(*chips("n0", 2), nodes=("n0",))
    for name in used:
        state.hold(f"claim/{name}", (_result(name),))
    state.hold("mine", tuple(map(_result, reserved)))
    kept = state.kept("mine", ("mine",))
    assert {result.device.name for result in kept} == {*reserved} - {*used}
    before = [_answer(state, request) for request in REQUESTS]
    enough = [may_serve(state, _demand(request), "n0", kept) for request in REQUESTS]
    state.release("mine")
    after = [_answer(state, request) for request in REQUESTS]
    assert kept or before == after
    assert all(may or answer is None for may, answer in zip(enough, after, strict=True))


def test_who_needs_more_devices_than_are_free_and_kept_is_ruled_out_by_counting() -> None:
    """A node that nobody knows has none; a device that another key has, too, does not count."""
    state = cluster(*chips("n0", 1), nodes=("n0",))
    state.hold("claim", (_result("chip-0-part-0"), _result("chip-0-part-1")))
    state.hold("mine", tuple(map(_result, ("chip-0-part-1", "chip-0-part-2", "chip-0-part-3"))))
    [one, two, three] = [_demand(device_request(kind="part", count=count)) for count in (1, 2, 3)]
    assert not may_serve(state, one, "n0", ())
    assert not may_serve(state, one, "n1", ())
    kept = state.kept("mine", ("mine",))
    assert [result.device.name for result in kept] == ["chip-0-part-2", "chip-0-part-3"]
    # Those on the same counters count.
    assert may_serve(state, two, "n0", kept)
    assert may_serve(state, three, "n0", kept)
    assert not may_serve(state, _demand(device_request(kind="whole", count=2)), "n0", kept)


def _demand(request: dict[str, object]) -> Demand:
    return Demand((claim("asks", request),))


def _answer(state: State, request: dict[str, object]) -> object:
    found = allocate(state, _demand(request), reuse=False)
    return [each.results for each in found.allocations] if isinstance(found, Decision) else None


def test_a_share_that_another_holds_keeps_nobody_off_the_rest() -> None:
    """Who holds a device as a whole does."""
    state = cluster(*chips("n0", 2), nodes=("n0",))
    share = DeviceResult("r", DeviceId(GPU, "n0", "chip-0-whole"), share_id="s")
    state.hold("mine", (_result("chip-0-whole"),))
    assert state.kept("mine", ("mine",))
    state.hold("share", (share,))
    assert state.kept("mine", ("mine",))
    state.hold("another reservation", (_result("chip-0-whole"),))
    assert state.kept("mine", ("mine", "another reservation"))
    assert not state.kept("mine", ("mine",))
