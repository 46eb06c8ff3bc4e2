"""A device that is released for a moment, and held as before, consumes what it did: no counter is given out twice."""

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from tests.allocator.builders import GPU, chip, chips, claim, cluster, device, device_request, device_slice

WHOLE = DeviceId(GPU, "n1", "chip-0-whole")


def test_a_device_that_another_one_tries_while_it_is_released_consumes_what_it_did_before() -> None:
    """A search for pods to preempt gives their devices to those that would come, takes them back, and holds all as it was."""
    state = cluster(*chips("n1"))
    state.hold("a", [DeviceResult("r", WHOLE)])
    rows = [device("chip-0-whole", "whole", {"units": 1}, "chip-0"), *chip()[1:]]
    state.put_slice(device_slice("n1-devices", "n1", rows, count=2))
    part = Demand((claim("c", device_request(kind="part")),))
    assert isinstance(allocate(state, part), Refusal)

    for _ in range(2):
        state.release("a")
        state.hold("b", [DeviceResult("r", WHOLE)])
        assert isinstance(allocate(state, part), Decision)
        state.release("b")
    state.hold("a", [DeviceResult("r", WHOLE)])

    assert isinstance(allocate(state, part), Refusal)


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_a_shared_device_that_is_released_for_a_moment_consumes_what_it_did_before(
    order: tuple[str, str],
) -> None:
    """In whatever order those that share it come back."""
    whole = device("chip-0-whole", "whole", {"units": 4}, "chip-0", allowMultipleAllocations=True)
    counters, _ = chips("n1")
    state = cluster(counters, device_slice("n1-devices", "n1", [whole, *chip()[1:]], count=2))
    for key in ("a", "b"):
        state.hold(key, [DeviceResult("r", WHOLE, share_id=key)])
    smaller = device("chip-0-whole", "whole", {"units": 1}, "chip-0", allowMultipleAllocations=True)
    state.put_slice(device_slice("n1-devices", "n1", [smaller, *chip()[1:]], count=2))
    part = Demand((claim("c", device_request(kind="part")),))
    assert isinstance(allocate(state, part), Refusal)

    for key in ("a", "b"):
        state.release(key)
    assert isinstance(allocate(state, part), Decision)
    for key in order:
        state.hold(key, [DeviceResult("r", WHOLE, share_id=key)])

    assert isinstance(allocate(state, part), Refusal)
    for key in ("a", "b"):
        state.release(key)
    assert isinstance(allocate(state, part), Decision)
