"""Requests with `derivedAttributes` (KEP-6080, alpha in 1.37) are refused, as kube-scheduler does with the gate off.

Upstream: `validateDeviceRequest` of allocator_stable.go. A derived attribute hides the published one of its name from constraints, so
that devices would be compared by the wrong values.
"""

from collections.abc import Callable

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.dra.claim import Claim
from apportion.errors import BrokenInput
from tests.allocator.builders import GPU, Raw, claim, cluster, device, device_request, device_slice

NUMA = f"{GPU}/numa"
DERIVED: Raw = {"derivedAttributes": [{"name": NUMA, "expression": f'device.attributes["{GPU}"].real'}]}
SAME: Raw = {"requests": ["r"], "matchAttribute": NUMA}
STATE = cluster(device_slice("s", "n1", [device(name, attributes={"numa": {"int": 0}}) for name in "ab"]))


Wanted = Callable[[Raw], Claim]


def exactly(more: Raw) -> Claim:
    """Return a claim for two devices of one NUMA node."""
    return claim("c", device_request(kind="", count=2, **more), constraints=[SAME])


def second(more: Raw) -> Claim:
    """Return one with an alternative that comes second, where the first one can be served."""
    rows = [
        {"name": name, "deviceClassName": "any", "count": count} for name, count in (("two", 2), ("one", 1))
    ]
    rows[1] |= more
    return claim("c", {"name": "r", "firstAvailable": rows}, constraints=[SAME])


@pytest.mark.parametrize(
    ("wanted", "field"),
    [(exactly, "spec.devices.requests[0].exactly"), (second, "spec.devices.requests[0].firstAvailable[1]")],
)
def test_a_claim_with_derived_attributes_is_refused_with_their_field(wanted: Wanted, field: str) -> None:
    """Also one that differs in nothing else from a claim that was served, and with an alternative without them."""
    assert isinstance(allocate(STATE, Demand((wanted({}),))), Decision)
    with pytest.raises(BrokenInput, match="derived attributes") as raised:
        allocate(STATE, Demand((wanted(DERIVED),)))
    assert raised.value.field == f"{field}.derivedAttributes"
    assert isinstance(allocate(STATE, Demand((wanted({"derivedAttributes": []}),))), Decision)
