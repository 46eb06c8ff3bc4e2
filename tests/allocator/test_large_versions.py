"""Versions with a number of more than 64 bits, which the API server stores (validation.go `semverRe` bounds no number).

Upstream converts all attributes of a device for each selector, which fails there (compile.go `getAttributeValue`: strconv.ParseUint), and
compares texts for constraints. Other devices of the slice are as they are.
"""

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.state import State
from apportion.dra.deviceclass import DeviceClass
from apportion.errors import BrokenInput
from tests.allocator.builders import GPU, Raw, claim, cluster, device, device_request, device_slice

LARGE = "20261129201243123456.0.0"
VALUES: list[Raw] = [
    {"version": LARGE},
    {"version": "1.0.0-20261129201243123456"},
    {"versions": ["1.0.0", LARGE]},
]


def state_of(*versions: Raw) -> State:
    """Return a node with a device for each version, after one without."""
    rows = [device(f"d{number}", attributes={"v": value}) for number, value in enumerate(versions)]
    return cluster(device_slice("s", "n1", [device("plain"), *rows]))


def served(state: State, count: int = 1, **constraint: str) -> list[str]:
    """Return the devices that a claim gets."""
    wanted = claim("c", device_request(kind="", count=count), constraints=[constraint] if constraint else ())
    answer = allocate(state, Demand((wanted,)))
    return (
        [each.device.name for each in answer.allocations[0].results] if isinstance(answer, Decision) else []
    )


@pytest.mark.parametrize("value", VALUES)
def test_a_selector_fails_on_such_a_device_and_the_others_of_its_slice_are_allocated(value: Raw) -> None:
    """Whatever the selector reads, here that of the class the driver."""
    state = state_of(value)
    assert served(state) == ["plain"]
    with pytest.raises(BrokenInput, match="attribute v: parse semantic version: a number exceeds 64 bits"):
        served(state, 2)


@pytest.mark.parametrize(
    ("kind", "expected"), [("matchAttribute", ["d0", "d2"]), ("distinctAttribute", ["d0", "d1"])]
)
def test_constraints_compare_such_versions_as_texts(kind: str, expected: list[str]) -> None:
    """Where no selector refuses them."""
    state = state_of({"version": LARGE}, {"version": f"{LARGE}+b"}, {"version": LARGE})
    state.put_class(DeviceClass.from_json({"metadata": {"name": "any"}, "spec": {}}))
    assert served(state, 2, **{kind: f"{GPU}/v"}) == expected
