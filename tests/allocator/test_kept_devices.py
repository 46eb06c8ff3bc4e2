"""Whether a key keeps devices from others: without one that does not, the state answers the same."""

from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from tests.allocator.builders import GPU, chips, claim, cluster, device_request

DEVICES = [f"chip-{chip}-{part}" for chip in range(2) for part in ("whole", *(f"part-{n}" for n in range(4)))]
"""Two chips, as a whole or in four parts."""
REQUESTS = [device_request(kind=kind, count=count) for kind in ("whole", "part") for count in range(1, 9)]


def _result(name: str) -> DeviceResult:
    return DeviceResult("r", DeviceId(GPU, "n0", name))


@given(st.lists(st.sampled_from(DEVICES), unique=True), st.lists(st.sampled_from(DEVICES), unique=True))
@settings(max_examples=200, deadline=None)
def test_without_a_key_that_keeps_nothing_from_others_every_answer_is_the_same(
    used: list[str], reserved: list[str]
) -> None:
    """Also where what is reserved shares counters with what is used; and one that keeps a device says so."""
    state = cluster(*chips("n0", 2), nodes=("n0",))
    for name in used:
        state.hold(f"claim/{name}", (_result(name),))
    state.hold("mine", tuple(map(_result, reserved)))
    keeps = state.keeps("mine", ("mine",))
    assert keeps == bool({*reserved} - {*used})
    before = [_answer(state, request) for request in REQUESTS]
    state.release("mine")
    after = [_answer(state, request) for request in REQUESTS]
    assert keeps or before == after


def _answer(state: object, request: dict[str, object]) -> object:
    found = allocate(state, Demand((claim("asks", request),)), reuse=False)
    return [each.results for each in found.allocations] if isinstance(found, Decision) else None


def test_a_share_that_another_holds_keeps_nobody_off_the_rest() -> None:
    """Who holds a device as a whole does."""
    state = cluster(*chips("n0", 2), nodes=("n0",))
    share = DeviceResult("r", DeviceId(GPU, "n0", "chip-0-whole"), share_id="s")
    state.hold("mine", (_result("chip-0-whole"),))
    assert state.keeps("mine", ("mine",))
    state.hold("share", (share,))
    assert state.keeps("mine", ("mine",))
    state.hold("another reservation", (_result("chip-0-whole"),))
    assert state.keeps("mine", ("mine", "another reservation"))
    assert not state.keeps("mine", ("mine",))
