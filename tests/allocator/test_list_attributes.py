"""Attributes with lists (KEP-5491): constraints, selectors, ladders and explanations read them without any option."""

from typing import Any

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.closeness.ladder import Ladder, Rung
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.explain.render import render
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from tests.allocator.builders import GPU, A, claim, cluster, device, device_request, device_slice

ROOTS = "resource.kubernetes.io/pcieRoots"
Raw = dict[str, Any]


def on_roots(*devices: Raw) -> State:
    """Return a node whose devices have these values of `ROOTS`, in order."""
    rows = [device(f"d{number}", attributes={ROOTS: value}) for number, value in enumerate(devices)]
    return cluster(device_slice("n1", "n1", rows))


def chosen(state: State, *constraints: Raw, count: int = 2, terms: Terms | None = None) -> list[str] | None:
    """Return the devices of a claim for so many, None if it is refused."""
    asked = Demand((claim("c", device_request(kind="", count=count), constraints=constraints),))
    found = allocate(state, asked, terms or Terms())
    if not isinstance(found, Decision):
        return None
    return sorted(result.device.name for result in found.allocations[0].results)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (({"strings": ["a", "b"]}, {"strings": ["c"]}, {"strings": ["b", "d"]}), ["d0", "d2"]),
        (({"strings": ["a", "b"]}, {"string": "b"}), ["d0", "d1"]),
        (({"ints": [1, 2]}, {"strings": ["1"]}, {"int": 2}), ["d0", "d2"]),
        (({"bools": [True]}, {"ints": [1]}), None),
        (({"versions": ["1.0.0", "2.0.0"]}, {"version": "2.0.0"}), ["d0", "d1"]),
        (({"strings": ["a"]}, {"strings": ["b"]}), None),
    ],
)
def test_devices_match_if_a_value_is_common_to_all(
    values: tuple[Raw, ...], expected: list[str] | None
) -> None:
    assert chosen(on_roots(*values), {"matchAttribute": ROOTS}) == expected


def test_a_value_has_to_be_common_to_all_devices_not_to_each_two() -> None:
    state = on_roots({"strings": ["a", "b"]}, {"strings": ["b", "c"]}, {"strings": ["a", "c"]})
    assert chosen(state, {"matchAttribute": ROOTS}) is not None
    assert chosen(state, {"matchAttribute": ROOTS}, count=3) is None


def test_distinct_devices_have_no_value_in_common() -> None:
    state = on_roots({"strings": ["a", "b"]}, {"strings": ["b", "c"]}, {"strings": ["c", "d"]})
    assert chosen(state, {"distinctAttribute": ROOTS}) == ["d0", "d2"]
    assert chosen(state, {"distinctAttribute": ROOTS}, count=3) is None


def test_a_selector_reads_a_list() -> None:
    state = on_roots({"strings": ["a"]}, {"strings": ["b", "c"]}, {"string": "c"})
    expression = f'{A.replace(GPU, "resource.kubernetes.io")}.pcieRoots.includes("c")'
    request = device_request(kind="", count=2, selectors=[{"cel": {"expression": expression}}])
    found = allocate(state, Demand((claim("c", request),)))
    assert isinstance(found, Decision)
    assert {result.device.name for result in found.allocations[0].results} == {"d1", "d2"}


def test_a_refusal_names_the_constraint_that_lists_do_not_satisfy() -> None:
    state = on_roots({"strings": ["a"]}, {"strings": ["b"]})
    request = device_request(kind="", count=2)
    found = allocate(state, Demand((claim("c", request, constraints=[{"matchAttribute": ROOTS}]),)))
    assert not isinstance(found, Decision)
    assert ROOTS in render(found.explanation)


def test_a_ladder_counts_the_first_value_of_a_list() -> None:
    """The devices of a ladder's level are those of one value, so that each device has one place."""
    state = on_roots({"strings": ["a"]}, {"strings": ["b", "a"]}, {"strings": ["c"]}, {"strings": ["b"]})
    assert chosen(state, terms=Terms(ladder=Ladder((Rung(ROOTS),)))) == ["d1", "d3"]
