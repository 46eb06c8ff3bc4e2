"""A driver publishes amounts below zero, which the API server stores: nobody gets more of a device than it has, and others serve."""

from typing import Any

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.explain.render import render
from apportion.allocator.state import State
from apportion.dra.allocation import Allocation, DeviceResult
from apportion.dra.device import DeviceId
from apportion.errors import BrokenInput
from tests.allocator.builders import GPU, Raw, amounts, claim, cluster, device, device_request, device_slice

NEGATIVE_CAPACITY = [
    pytest.param({"value": "-4"}, "value", "-4", id="value"),
    pytest.param(
        {"value": "4", "requestPolicy": {"default": "-1"}}, "requestPolicy.default", "-1", id="policy"
    ),
    pytest.param(
        {"value": "4", "requestPolicy": {"default": "-1", "validRange": {"min": "-1"}}},
        "requestPolicy.default",
        "-1",
        id="range",
    ),
    pytest.param(
        {"value": "4", "requestPolicy": {"default": "-1", "validValues": ["-1", "2"]}},
        "requestPolicy.default",
        "-1",
        id="values",
    ),
]


def served(state: State, most: int, **request: Any) -> list[str]:
    """Return the devices that so many claims get, one after another, until one gets nothing."""
    found: list[str] = []
    for number in range(most):
        answer = allocate(state, Demand((claim(f"c{number}", device_request(**request)),)))
        if isinstance(answer, Refusal):
            break
        assert isinstance(answer, Decision)
        results = answer.allocations[0].results
        state.hold(f"c{number}", results)
        found += [each.device.name for each in results]
    return found


@pytest.mark.parametrize(("capacity", "field", "amount"), NEGATIVE_CAPACITY)
def test_a_shared_device_with_negative_capacity_is_closed_with_a_reason(
    capacity: Raw, field: str, amount: str
) -> None:
    """Each share would give capacity back. The other device of the slice serves as often as it can."""
    rows = [
        device("gpu-0", allowMultipleAllocations=True, capacity={"memory": capacity}),
        device("gpu-1", allowMultipleAllocations=True, capacity=amounts(memory=4)),
    ]
    state = cluster(device_slice("s", "n1", rows))

    assert served(state, 9, capacity={"requests": {"memory": "2"}}) == ["gpu-1", "gpu-1"]
    assert served(cluster(device_slice("s", "n1", rows)), 9) == ["gpu-1"]
    (finding,) = state.findings()
    assert finding.object == f"pool {GPU}/n1, slice s"
    assert finding.field == f"spec.devices[0].capacity[memory].{field}"
    assert finding.reason == f"device gpu-0: {amount} is negative; the device is not allocated"


def test_a_device_that_consumes_less_than_nothing_of_a_counter_gives_none_back() -> None:
    """It is closed, and where somebody has it nevertheless its chip has what it had."""
    rows = [
        device("whole", "whole", {"units": 2}),
        device("odd", "odd", {"units": -2}),
        *(device(f"part-{index}", "part", {"units": 1}) for index in range(4)),
    ]
    pieces = (
        device_slice("devices", "n1", rows, count=2),
        device_slice(
            "counters", "n1", count=2, sharedCounters=[{"name": "chip-0", "counters": amounts(units=2)}]
        ),
    )

    assert served(cluster(*pieces), 9, kind="odd") == []
    state = cluster(*pieces)
    state.hold("former", [DeviceResult("r", DeviceId(GPU, "n1", "odd"))])
    assert len(served(state, 9, kind="part")) == 2
    (finding,) = state.findings()
    assert finding.field == "spec.devices[1].consumesCounters[0].counters[units].value"
    refused = allocate(cluster(*pieces), Demand((claim("c", device_request(kind="odd")),)))
    assert isinstance(refused, Refusal)
    assert "never allocated there: consumesCounters[0].counters[units].value: -2 is negative" in render(
        refused.explanation
    )


def test_a_counter_below_zero_serves_nobody() -> None:
    """What there is less than nothing of is not consumed; the other chip serves."""
    sets = [{"name": f"chip-{n}", "counters": amounts(units=units)} for n, units in enumerate((-1, 1))]
    rows = [device(f"part-{n}", "part", {"units": 1}, f"chip-{n}") for n in range(2)]
    state = cluster(
        device_slice("devices", "n1", rows, count=2),
        device_slice("counters", "n1", count=2, sharedCounters=sets),
    )

    assert served(state, 9, kind="part") == ["part-1"]


def test_an_allocation_of_less_than_nothing_is_not_read() -> None:
    """Somebody else wrote it; what remains of the claim has the device as a whole."""
    result: Raw = {"request": "r", "driver": GPU, "pool": "n1", "device": "gpu-0", "shareID": "s"}
    row = result | {"consumedCapacity": {"memory": "-4"}}
    with pytest.raises(BrokenInput, match="-4 is negative") as raised:
        Allocation.from_json({"devices": {"results": [row]}})
    assert raised.value.field.endswith("results[0].consumedCapacity[memory]")
