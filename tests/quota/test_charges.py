"""What an allocation is charged: exactly the devices chosen, whole, in parts or cut."""

import pytest

from apportion.api.quota import QuotaResource
from apportion.dra.claim import Claim
from apportion.dra.device import Device
from apportion.dra.quantity import NANO, Quantity
from apportion.quota.charge import charges
from apportion.quota.resource import Resource
from tests.quota.quotas import GPU, MODEL, allocation, claim, either, gpu, mig, published


def taken(resource: dict[str, str], made: Claim, *parts: object) -> str:
    """Return how much of a resource a claim with this allocation takes."""
    found, *devices = parts
    entry = Resource.of(QuotaResource.from_json({"name": "r", **resource}))
    own = charges(made, found, published(devices).get)  # type: ignore[arg-type]
    return entry.text(sum(map(entry.amount, own)))


def test_a_whole_gpu_is_one_device_with_all_its_memory() -> None:
    """By class, by model and by capacity; with and without the driver's name."""
    whole = gpu()
    for resource, amount in (
        ({"deviceClass": "gpu"}, "1"),
        ({"deviceClass": "mig"}, "0"),
        ({"model": MODEL}, "1"),
        ({"model": "A100"}, "0"),
        ({"profile": "1g.10gb"}, "0"),
        ({"capacity": "memory"}, "80Gi"),
        ({"capacity": "gpu.apportion.dev/memory"}, "80Gi"),
        ({"capacity": "npu.apportion.dev/memory"}, "0"),
        ({"deviceClass": "mig", "capacity": "memory"}, "0"),
    ):
        assert taken(resource, claim(), allocation(whole), whole) == amount, resource


def test_a_partition_takes_its_own_memory_and_counters() -> None:
    """A counter that a capacity is named after is not counted twice."""
    part = mig()
    assert taken({"profile": "1g.10gb"}, claim(("mig", 1)), allocation(part), part) == "1"
    assert taken({"capacity": "memory"}, claim(("mig", 1)), allocation(part), part) == "10Gi"
    assert taken({"capacity": "slots"}, claim(("mig", 1)), allocation(part), part) == "1"


def test_ten_shares_of_a_tenth_are_one_gpu() -> None:
    """A share takes what it consumes, and counts as the largest part of any capacity."""
    whole = gpu(shared=True)
    share = allocation(whole, consumed={"memory": "8Gi"})
    assert taken({"deviceClass": "gpu"}, claim(), share, whole) == "100m"
    assert taken({"capacity": "memory"}, claim(), share, whole) == "8Gi"
    entry = Resource.of(QuotaResource.from_json({"name": "r", "deviceClass": "gpu"}))
    own = charges(claim(), share, published([whole]).get)
    assert sum(map(entry.amount, own * 10)) == NANO


def test_an_alternative_is_charged_as_the_class_that_was_chosen() -> None:
    """The result names it."""
    whole, part = gpu(), mig()
    made = either(("gpu", 1), ("mig", 1))
    assert taken({"deviceClass": "gpu"}, made, allocation(whole, request="r0/a0"), whole) == "1"
    assert taken({"deviceClass": "gpu"}, made, allocation(part, request="r0/a1"), part) == "0"
    assert taken({"deviceClass": "mig"}, made, allocation(part, request="r0/a1"), part) == "1"


def test_admin_access_takes_nothing() -> None:
    """It looks at devices that others have."""
    whole = gpu()
    assert taken({"deviceClass": "gpu"}, claim(), allocation(whole, admin=True), whole) == "0"


def test_a_device_that_no_slice_has_counts_as_a_device() -> None:
    """It is taken all the same; of its capacity nobody knows."""
    assert taken({"deviceClass": "gpu"}, claim(), allocation(gpu())) == "1"
    assert taken({"capacity": "memory"}, claim(), allocation(gpu())) == "0"


def test_amounts_are_printed_as_they_were_written() -> None:
    """Binary for memory, decimal for counts."""
    entry = Resource.of(QuotaResource.from_json({"name": "r", "deviceClass": "gpu", "limit": "1500m"}))
    assert entry.text(Quantity.parse("1.5").nano) == "1500m"
    entry = Resource.of(QuotaResource.from_json({"name": "r", "capacity": "memory", "limit": "64Gi"}))
    assert entry.text(Quantity.parse("40Gi").nano) == "40Gi"


@pytest.mark.parametrize("names", [("memory", f"{GPU}/memory"), (f"{GPU}/memory", "memory")])
def test_of_a_capacity_that_a_share_has_under_two_names_the_qualified_one_counts(
    names: tuple[str, str],
) -> None:
    """A driver that publishes both means the one that selectors see, in whatever order the API shows them."""
    shared = Device.from_json(
        {
            "name": "gpu-0",
            "capacity": {"memory": {"value": "1"}, f"{GPU}/memory": {"value": "80Gi"}},
            "allowMultipleAllocations": True,
        },
        driver=GPU,
        pool="n1",
    )
    amounts = {"memory": "1", f"{GPU}/memory": "8Gi"}
    share = allocation(shared, consumed={name: amounts[name] for name in names})
    for capacity in ("memory", f"{GPU}/memory"):
        assert taken({"capacity": capacity}, claim(), share, shared) == "8Gi"
    assert taken({"deviceClass": "gpu"}, claim(), share, shared) == "100m"
    gone = charges(claim(), share, published([]).get)
    assert [each.amounts for each in gone] == [((f"{GPU}/memory", Quantity.parse("8Gi").nano),)]
