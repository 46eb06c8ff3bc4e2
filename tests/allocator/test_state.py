"""Facts reach the state in any order: held devices stay held, broken pools stay unused."""

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.rules.features import Features
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.terms import Terms
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from apportion.dra.deviceclass import DeviceClass
from apportion.dra.taint import Taint, Toleration
from apportion.dra.taintrule import DeviceTaintRule
from apportion.errors import BrokenInput
from tests.allocator.builders import (
    GPU,
    amounts,
    chip,
    chips,
    claim,
    cluster,
    device,
    device_request,
    device_slice,
)

WHOLE = DeviceId(GPU, "n1", "chip-0-whole")
PART = DeviceId(GPU, "n1", "chip-0-part-0")


def names(found: Decision | Refusal) -> list[str]:
    """Return the names of the chosen devices."""
    assert isinstance(found, Decision), found
    return [result.device.name for one in found.allocations for result in one.results]


def test_a_held_whole_device_blocks_its_parts_through_the_counters() -> None:
    """A part blocks the whole too; a release frees it."""
    state = cluster(*chips("n1"))
    state.hold("a", [DeviceResult("r", WHOLE)])
    assert isinstance(allocate(state, Demand((claim("c", device_request(kind="part")),))), Refusal)

    state.hold("a", [DeviceResult("r", PART)])
    assert isinstance(allocate(state, Demand((claim("c", device_request(kind="whole")),))), Refusal)
    assert len(names(allocate(state, Demand((claim("c", device_request(kind="part", count=3)),))))) == 3

    state.release("a")
    assert names(allocate(state, Demand((claim("c", device_request(kind="whole")),)))) == ["chip-0-whole"]


def test_a_held_device_that_is_no_longer_published_keeps_its_counters() -> None:
    """kubernetes/kubernetes #140802: the consumption at the time of the allocation counts."""
    state = cluster(*chips("n1"))
    state.hold("a", [DeviceResult("r", WHOLE)])

    rest = [row for row in chip() if row["name"] != "chip-0-whole"]
    state.put_slice(device_slice("n1-devices", "n1", rest, count=2))

    assert isinstance(allocate(state, Demand((claim("c", device_request(kind="part")),))), Refusal)
    state.release("a")
    assert isinstance(allocate(state, Demand((claim("c", device_request(kind="part")),))), Decision)


@pytest.mark.parametrize("key", ["a", "ended:a"])
@pytest.mark.parametrize("smaller", [False, True], ids=["withdrawn", "republished smaller"])
def test_a_device_that_is_released_for_a_moment_consumes_what_it_did_before(
    key: str, *, smaller: bool
) -> None:
    """Who asks whether somebody could be served without it frees no counter for good. Under another key that is known of a withdrawn device alone."""
    state = cluster(*chips("n1"))
    state.hold("a", [DeviceResult("r", WHOLE)])
    rows = [row for row in chip() if row["name"] != "chip-0-whole"]
    if smaller:
        rows.append(device("chip-0-whole", "whole", {"units": 1}, "chip-0"))
    state.put_slice(device_slice("n1-devices", "n1", rows, count=2))

    state.release("a")
    state.hold(key, [DeviceResult("r", WHOLE)])
    served = isinstance(allocate(state, Demand((claim("c", device_request(kind="part")),))), Decision)
    assert served == (smaller and key != "a")


def test_a_held_device_that_is_republished_smaller_keeps_its_consumption() -> None:
    """The other half of the same bug: a republished device does not consume less than at its allocation."""
    state = cluster(*chips("n1"))
    state.hold("a", [DeviceResult("r", WHOLE)])

    rows = chip()
    rows[0] = device("chip-0-whole", "whole", {"units": 1}, "chip-0")
    state.put_slice(device_slice("n1-devices", "n1", rows, count=2))

    assert isinstance(allocate(state, Demand((claim("c", device_request(kind="part")),))), Refusal)


def test_a_device_held_before_its_slice_is_known_is_held_once_the_slice_is_known() -> None:
    """Allocations and slices arrive in any order after a start."""
    state = cluster()
    state.hold("a", [DeviceResult("r", WHOLE)])
    for one in chips("n1"):
        state.put_slice(one)

    assert isinstance(allocate(state, Demand((claim("c", device_request(kind="part")),))), Refusal)
    assert state.holders(WHOLE) == ("a",)


def test_a_device_with_two_holders_is_free_after_both_release_it() -> None:
    """A double allocation by others is counted: one release does not free the device."""
    state = cluster(device_slice("s", "n1", [device("gpu-0")]))
    gpu = DeviceId(GPU, "n1", "gpu-0")
    state.hold("a", [DeviceResult("r", gpu)])
    state.hold("b", [DeviceResult("r", gpu)])
    assert state.holders(gpu) == ("a", "b")

    state.release("a")
    assert isinstance(allocate(state, Demand((claim("c", device_request()),))), Refusal)

    state.release("b")
    assert isinstance(allocate(state, Demand((claim("c", device_request()),))), Decision)


def test_admin_access_consumes_nothing() -> None:
    """Neither the device nor its counters are consumed."""
    state = cluster(*chips("n1"))
    state.hold("a", [DeviceResult("r", WHOLE, admin_access=True)])

    assert state.holders(WHOLE) == ()
    assert len(names(allocate(state, Demand((claim("c", device_request(kind="part", count=4)),))))) == 4


def test_a_second_hold_of_a_key_replaces_the_first() -> None:
    """An allocation that moved frees its former devices."""
    state = cluster(device_slice("s", "n1", [device("gpu-0"), device("gpu-1")]))
    state.hold("a", [DeviceResult("r", DeviceId(GPU, "n1", "gpu-0"))])
    state.hold("a", [DeviceResult("r", DeviceId(GPU, "n1", "gpu-1"))])

    assert names(allocate(state, Demand((claim("c", device_request()),)))) == ["gpu-0"]


@pytest.mark.parametrize("strategy", Strategy)
def test_answers_follow_every_change_of_facts(strategy: Strategy) -> None:
    """An outcome kept for a query is never older than the last fact."""
    state = cluster(nodes=("n1", "n2"))
    demand = Demand((claim("c", device_request()),))
    assert isinstance(allocate(state, demand, Terms(strategy)), Refusal)

    state.put_slice(device_slice("s1", "n1", [device("gpu-0")]))
    found = allocate(state, demand, Terms(strategy))
    assert isinstance(found, Decision)
    assert found.node == "n1"

    state.put_slice(
        device_slice("s1", "n1", [device("gpu-0", taints=[{"key": "k", "effect": "NoSchedule"}])])
    )
    assert isinstance(allocate(state, demand, Terms(strategy)), Refusal)

    state.put_slice(device_slice("s2", "n2", [device("gpu-0")]))
    assert isinstance(allocate(state, demand, Terms(strategy)), Decision)

    state.drop_node("n2")
    assert isinstance(allocate(state, demand, Terms(strategy)), Refusal)

    state.put_node("n2", {})
    state.drop_slice("s2")
    assert isinstance(allocate(state, demand, Terms(strategy)), Refusal)


def test_a_changed_device_class_invalidates_outcomes() -> None:
    """Outcomes for the old class are not used for the new one."""
    state = cluster(device_slice("s", "n1", [device("gpu-0")]))
    demand = Demand((claim("c", device_request()),))
    assert isinstance(allocate(state, demand), Decision)

    none = {"metadata": {"name": "any"}, "spec": {"selectors": [{"cel": {"expression": "false"}}]}}
    state.put_class(DeviceClass.from_json(none))
    assert isinstance(allocate(state, demand), Refusal)

    state.drop_class("any")
    with pytest.raises(BrokenInput, match="device class any does not exist"):
        allocate(state, demand)


def test_broken_pools_are_reported_and_other_pools_serve() -> None:
    """A duplicate name, an unknown counter and a missing slice give one finding each; the good pool serves."""
    state = cluster(
        device_slice("double", "n1", [device("gpu-0"), device("gpu-0")], pool="double"),
        device_slice("short", "n1", [device("gpu-0")], pool="short", count=2),
        device_slice("lost", "n1", [device("gpu-0", use={"units": 1})], pool="lost"),
        device_slice("good", "n1", [device("gpu-0")], pool="good"),
    )

    found = allocate(state, Demand((claim("c", device_request()),)))

    assert isinstance(found, Decision)
    assert found.allocations[0].results[0].device.pool == "good"
    reasons = {(one.object, one.field): one.reason for one in state.findings()}
    assert "gpu-0 is there twice" in reasons[f"pool {GPU}/double, slice double", "spec.devices[1].name"]
    assert "counter set chip-0" in reasons[f"pool {GPU}/lost, slice lost", "spec.devices[0].consumesCounters"]
    assert (f"pool {GPU}/short", "spec.pool.resourceSliceCount") in reasons
    assert len(reasons) == 3


def test_the_verdict_is_node_if_only_broken_pools_match() -> None:
    """The slices may be repaired: that differs from a lack of devices."""
    state = cluster(device_slice("double", "n1", [device("gpu-0"), device("gpu-0")]))

    found = allocate(state, Demand((claim("c", device_request()),)))

    assert isinstance(found, Refusal)
    assert found.verdict == "node"
    assert "gpu-0 is there twice" in found.explanation.groups[0].message


def test_a_taint_rule_keeps_claims_from_the_devices_it_selects() -> None:
    """Its removal frees the devices; the demand's own tolerations count, but do not appear in results."""
    state = cluster(device_slice("s", "n1", [device("gpu-0"), device("gpu-1")]))
    demand = Demand((claim("c", device_request()),))
    rule = DeviceTaintRule("r", Taint("repair", "NoExecute"), driver=GPU, device="gpu-0")
    state.put_taint_rule(rule)
    assert names(allocate(state, demand)) == ["gpu-1"]

    state.put_taint_rule(DeviceTaintRule("r", Taint("repair", "NoExecute")))
    assert isinstance(allocate(state, demand), Refusal)
    tolerant = Demand(demand.claims, tolerations=(Toleration("repair", "Exists"),))
    assert allocate(state, tolerant).allocations[0].results[0].tolerations == ()  # type: ignore[union-attr]

    state.drop_taint_rule("r")
    assert names(allocate(state, demand)) == ["gpu-0"]


def test_nodes_of_one_pool_share_its_counters() -> None:
    """Consumption on one node is missing on the other."""
    sets = [{"name": "chip-0", "counters": amounts(units=4)}]
    rows = [row | {"allNodes": True} for row in chip()]
    state = cluster(
        device_slice("c", None, count=2, sharedCounters=sets),
        device_slice("d", None, rows, count=2, perDeviceNodeSelection=True, allNodes=None),
        nodes=("n1", "n2"),
    )
    first = allocate(state, Demand((claim("a", device_request(kind="whole")),), nodes=frozenset({"n1"})))
    assert isinstance(first, Decision)
    assert first.allocations[0].node_selector is None
    state.hold("a", first.allocations[0].results)

    second = allocate(state, Demand((claim("b", device_request(kind="part")),), nodes=frozenset({"n2"})))

    assert isinstance(second, Refusal)


@pytest.mark.parametrize("strategy", Strategy)
def test_with_partitionable_devices_off_devices_without_counters_of_the_same_pool_are_allocated(
    strategy: Strategy,
) -> None:
    """Slices with counters count for a whole pool (upstream's GatherPools); devices that consume them are refused."""
    counters, devices = chips("n1")
    rows = [*chip(), device("plain")]
    slices = (counters, device_slice(devices.name, "n1", rows, count=2))
    state = cluster(*slices, features=Features(partitionable_devices=False))
    terms = Terms(strategy=strategy)

    assert names(allocate(state, Demand((claim("c", device_request()),)), terms)) == ["plain"]
    for request in (
        device_request(kind="part"),
        device_request(kind="part", adminAccess=True),
        device_request(kind="", allocationMode="All", count=0),
    ):
        assert isinstance(allocate(state, Demand((claim("c", request),)), terms), Refusal)


def test_without_partitionable_devices_an_incomplete_pool_is_still_incomplete() -> None:
    """The slices counted are all of the generation; one that is missing makes the pool incomplete."""
    _, devices = chips("n1")
    state = cluster(
        device_slice(devices.name, "n1", [device("plain")], count=2),
        features=Features(partitionable_devices=False),
    )
    assert isinstance(allocate(state, Demand((claim("c", device_request()),))), Refusal)
