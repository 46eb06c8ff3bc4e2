"""Attributes and capacities of a driver's own domain, with and without the domain: `m` and `gpu.example.com/m`.

An attribute is found under both forms, a qualified one first (`lookupAttribute` of k8s.io/dynamic-resource-allocation 1.37), and so are both
in CEL; an amount of a capacity is asked for by the name that the driver declares (`requestsContainNonExistCapacity`).
"""

from typing import Any

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from tests.allocator.builders import GPU, Raw, claim, cluster, device, device_request, device_slice

FULL = f"{GPU}/m"
UNKNOWN: Raw = {"newer": {}}


def served(*rows: Raw, constraints: list[Raw] | None = None, **request: Any) -> list[str]:
    """Return the devices that a claim gets; none where it gets nothing."""
    state = cluster(device_slice("s", "n1", rows))
    wanted = claim("c", device_request(kind="", **request), constraints=constraints or ())
    answer = allocate(state, Demand((wanted,)))
    return (
        [each.device.name for each in answer.allocations[0].results] if isinstance(answer, Decision) else []
    )


def having(name: str, *fields: tuple[str, Raw]) -> Raw:
    """Return a device with these attributes, in this order."""
    return device(name, attributes=dict(fields))


@pytest.mark.parametrize("kind", ["matchAttribute", "distinctAttribute"])
def test_constraints_compare_an_attribute_in_both_forms(kind: str) -> None:
    """One device has the short name, the other one the full name."""
    values = ("x", "x") if kind == "matchAttribute" else ("x", "y")
    rows = having("a", ("m", {"string": values[0]})), having("b", (FULL, {"string": values[1]}))
    assert served(*rows, count=2, constraints=[{"requests": ["r"], kind: FULL}]) == ["a", "b"]


@pytest.mark.parametrize("last", ["m", FULL])
def test_a_qualified_attribute_of_an_unknown_type_hides_the_short_one(last: str) -> None:
    """Nobody knows whether it is equal to another one, whatever the order of the names."""
    fields = [("m", {"string": "x"}), (FULL, UNKNOWN)]
    if last == "m":
        fields.reverse()
    rows = having("a", *fields), having("b", ("m", {"string": "x"}))
    state = cluster(device_slice("s", "n1", rows))
    assert state.view("n1").attribute_index(FULL).mask == 0b10


@pytest.mark.parametrize("last", ["m", FULL])
def test_selectors_see_the_qualified_capacity(last: str) -> None:
    """Of both, whatever their order, as with attributes."""
    amounts = {"m": {"value": "1"}, FULL: {"value": "2"}}
    ordered = {name: amounts[name] for name in sorted(amounts, key=lambda name: name == last)}
    selector = {"cel": {"expression": f'device.capacity["{GPU}"].m.compareTo(quantity("2")) == 0'}}
    assert served(device("a", capacity=ordered), selectors=[selector]) == ["a"]


@pytest.mark.parametrize(("asked", "got"), [("m", ["short"]), (FULL, ["full"])])
def test_an_amount_is_asked_for_by_the_declared_name(asked: str, got: list[str]) -> None:
    """As kube-scheduler does: it would charge nothing of a capacity under another name."""
    rows = [
        device("short", capacity={"m": {"value": "1"}}, allowMultipleAllocations=True),
        device("full", capacity={FULL: {"value": "1"}}, allowMultipleAllocations=True),
    ]
    assert served(*rows, capacity={"requests": {asked: "1"}}) == got


def test_devices_that_differ_in_the_qualified_amount_share_no_result_of_a_selector() -> None:
    """Results are kept by what a selector reads, and of both names it reads the qualified one."""
    rows = [
        device(name, capacity={"m": {"value": "1"}, FULL: {"value": value}})
        for name, value in (("a", "2"), ("b", "3"))
    ]
    selector = {"cel": {"expression": f'device.capacity["{GPU}"].m.compareTo(quantity("3")) == 0'}}
    assert served(*rows, selectors=[selector]) == ["b"]
