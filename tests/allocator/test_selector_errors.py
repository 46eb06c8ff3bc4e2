"""Errors of selectors on devices are kept once for all devices that have the same one, and some of those of which each has its own."""

import gc
import tracemalloc

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.demand import Demand
from apportion.allocator.rules.selectors import MOST_ERRORS
from apportion.allocator.state import State
from apportion.dra.device import Device
from apportion.errors import BrokenInput, SelectorError
from tests.allocator.builders import GPU, A, Raw, claim, cluster, device, device_request, device_slice


def errors(text: str, devices: int) -> list[SelectorError]:
    """Return the error of each of so many devices, which differ in their UUID."""
    results = State().selectors(text)
    found = [
        results.evaluate(
            Device(driver=GPU, pool="p", name=f"gpu-{number}", attributes={f"{GPU}/uuid": f"u{number:04}"})
        )
        for number in range(devices)
    ]
    return [error for error in found if isinstance(error, SelectorError)]


def test_one_error_stands_for_all_devices_that_have_it() -> None:
    """Each was a kB: of every device of the cluster, for each of two thousand selectors."""
    for text in (f'{A}.uuid == "x" || {A}.size > 2', f"[device].exists(d, d.attributes['{GPU}'].size > 2)"):
        found = errors(text, 1000)
        assert len(found) == 1000
        assert len({id(error) for error in found}) == 1
        assert "no such key: size" in str(found[0])


def test_errors_that_name_a_value_of_the_device_are_bounded() -> None:
    """The first have their own texts; the others say that they are others."""
    found = errors(f"int({A}.uuid) > 2", 1000)
    assert len(found) == 1000
    assert len({id(error) for error in found}) == MOST_ERRORS + 1
    assert "u0000" in str(found[0])
    assert f"one of more than {MOST_ERRORS} errors" in str(found[-1])


def test_a_selector_that_fails_on_all_devices_keeps_no_text_for_each() -> None:
    """Anybody may write such claims: a text for each device, node and claim was gigabytes."""
    nodes, devices, texts = 10, 64, 6
    names = tuple(f"n{number}" for number in range(nodes))
    state = cluster(
        *(device_slice(name, name, [identified(name, index) for index in range(devices)]) for name in names),
        nodes=names,
    )
    kept = []
    for number in range(2 * texts):
        if number % texts == 0:
            gc.collect()
            tracemalloc.start()
        expression = f'{A}.uuid == "{number}" || {A}.never'
        asked = device_request(kind="", selectors=[{"cel": {"expression": expression}}])
        with pytest.raises(BrokenInput, match=r"on device gpu.example.com/n0/gpu-0: .* no such key: never"):
            allocate(state, Demand((claim(f"c{number}", asked),)))
        if number % texts == texts - 1:
            gc.collect()
            kept.append(tracemalloc.get_traced_memory()[0] / (nodes * devices * texts))
            tracemalloc.stop()
    assert kept[1] < 500, "bytes for each device and claim"


def identified(node: str, index: int) -> Raw:
    """Return a device with a UUID."""
    return device(f"gpu-{index}", attributes={"uuid": {"string": f"GPU-{node}-{index}"}})
