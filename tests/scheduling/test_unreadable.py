"""Objects that cannot be read: what was taken stays taken, what was shut stays shut."""

from typing import Any

import orjson
import pytest

from apportion.api.contract import GATE
from apportion.api.policy import Strategy
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, LAYOUTS, PARTITIONS, POLICIES
from apportion.dra.device import DeviceId
from apportion.partitions.layouts import orphans
from apportion.scheduling.writing.gates import Gates
from tests.observedcluster import GPU, ObservedCluster, request
from tests.scheduling.openedgates import opened

Json = dict[str, Any]
FIRST, SECOND = (DeviceId(GPU, "n1", name) for name in ("gpu-0", "gpu-1"))


def world_with_policy(**spec: Any) -> tuple[ObservedCluster, Json]:
    """A plain class that only a policy makes ours, and a pod behind our gate with a claim on it."""
    world = ObservedCluster()
    world.node("n1")
    world.card("n1")
    world.device_class("gpu", other="label")
    policy = world.policy(**spec)
    world.claim("c")
    world.pod("p", "c", gates=[GATE])
    return world, policy


def open_pods(world: ObservedCluster) -> list[str]:
    return [pod.name for pod in opened(Gates(world.snapshot))]


def spoil(world: ObservedCluster, claim: Json, *rows: Json) -> None:
    """Let a newer release write a field that we cannot read."""
    claim["status"]["allocation"]["devices"]["results"] = list(rows)
    world.see(CLAIMS, claim)


def row(device: str, **more: Any) -> Json:
    return {"request": "gpu", "driver": GPU, "pool": "n1", "device": device, **more}


def test_an_allocated_claim_that_becomes_unreadable_keeps_its_devices() -> None:
    """A pod may run with them; the first device is read from what is there, the second remembered."""
    world = ObservedCluster()
    claim = world.claim("c")
    world.allocate(claim, "n1", "gpu-0", "gpu-1")
    spoil(world, claim, row("gpu-0", adminAccess="maybe"), {"newer": "form"})
    assert world.snapshot.state.holders(FIRST) == world.snapshot.state.holders(SECOND) != ()
    assert all(world.snapshot.claim_index.on_device(device) for device in (FIRST, SECOND))
    world.gone(CLAIMS, claim)
    assert world.snapshot.state.holders(FIRST) == world.snapshot.state.holders(SECOND) == ()


def test_an_unreadable_claim_is_charged_with_what_can_be_read_of_it_at_start() -> None:
    """There is no last readable value; its spec is of a form that we do not know."""
    world = ObservedCluster()
    claim = world.claim("c")
    world.gone(CLAIMS, claim)
    claim["metadata"].pop("uid")
    claim["metadata"]["name"] = "d"
    claim["spec"]["devices"]["requests"] = "newer"
    claim["status"] = {"allocation": {"devices": {"results": [row("gpu-0"), {"newer": "form"}]}}}
    world.see(CLAIMS, claim)
    assert world.snapshot.state.holders(FIRST) != ()
    claim["status"] = {}
    world.see(CLAIMS, claim)
    assert world.snapshot.state.holders(FIRST) == ()


@pytest.mark.parametrize("digits", [1001, 5000])
def test_a_quantity_of_very_many_digits_leaves_its_pod_out_and_nothing_else(digits: int) -> None:
    """The API server stores numbers of any length, and one of them must not stop the operator."""
    world = ObservedCluster()
    containers = [{"name": "main", "resources": {"requests": {"cpu": "1" * digits}}}]
    pod = world.pod("p", spec={"containers": containers})
    other = world.pod("q")
    assert [each.name for each in world.snapshot.pods.values()] == ["q"]
    assert world.snapshot.broken[pod["metadata"]["uid"]].error.field.endswith("resources.requests[cpu]")
    assert world.pod_value(other).requests == {"cpu": 1000}


def test_a_pod_with_an_operator_of_a_newer_release_is_left_out_and_nothing_else() -> None:
    """Each pass looks at what nodes it may have, so that it would end the operator there."""
    world = ObservedCluster()
    term = {"matchExpressions": [{"key": "zone", "operator": "Near", "values": ["a"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pod = world.pod("p", spec={"affinity": {"nodeAffinity": required}})
    world.pod("q")
    assert [each.name for each in world.snapshot.pods.values()] == ["q"]
    assert world.snapshot.broken[pod["metadata"]["uid"]].error.field.endswith("matchExpressions[0].operator")


@pytest.mark.parametrize("levels", [150, 1020])
async def test_a_claim_with_parameters_that_are_nested_deeply_is_left_out_and_nothing_else(
    unanswered: Client, levels: int
) -> None:
    """Anybody may make one. The allocation that repeats its parameters could not be written, and kept its devices as one without an answer."""
    world = ObservedCluster()
    world.node("n1")
    world.card("n1")
    world.device_class("gpu")
    hostile = world.claim("hostile")
    for _ in range(2):
        parameters = {"deep": orjson.loads("[" * levels + "]" * levels)}
        opaque = {"driver": "d.example.com", "parameters": parameters}
        hostile["spec"]["devices"]["config"] = [{"opaque": opaque}]
        world.see(CLAIMS, hostile)
    world.pod("hostile", "hostile", gates=[GATE])
    world.wait_for("other", request("gpu"))

    world.cycle(unanswered).once()

    assert world.places().keys() == {"other"}
    assert ("hostile", "Unreadable") in world.warned
    assert world.snapshot.broken[hostile["metadata"]["uid"]].error.field == "spec.devices.config[0].opaque"


async def test_an_unreadable_claim_is_neither_served_nor_cleared(unanswered: Client) -> None:
    """Its pod stays behind the gate, and an Event names the field."""
    world, _ = world_with_policy()
    [claim] = world.snapshot.claims.values()
    raw = world.claim("c")
    world.allocate(raw, "n1", "gpu-0")
    assert open_pods(world) == ["p"]
    spoil(world, raw, row("gpu-0", adminAccess="maybe"))
    assert open_pods(world) == []
    cycle = world.cycle(unanswered)
    world.clock.now += 1000
    cycle.once()
    assert ("c", "Unreadable") in world.warned
    assert world.snapshot.state.holders(FIRST) == (claim.uid,)
    assert world.snapshot.broken[claim.uid].error.field.endswith("results[0].adminAccess")


@pytest.mark.parametrize("spec", [{"strategy": "OfANewerRelease"}, {"deviceClasses": "newer"}])
def test_a_policy_that_becomes_unreadable_keeps_its_classes_and_its_last_readable_value(spec: Json) -> None:
    """Its classes were ours: without it the gate would open before the claim has its devices."""
    world, policy = world_with_policy(strategy="Pack")
    policy["spec"] |= spec
    world.see(POLICIES, policy)
    assert open_pods(world) == []
    [claim] = world.snapshot.claims.values()
    assert world.snapshot.managed.owns(claim)
    assert world.snapshot.managed.policy(claim).strategy == Strategy.PACK


def test_a_policy_that_was_never_readable_manages_the_classes_that_can_be_read() -> None:
    """As after a rollback: a field that can be read counts, the others have their defaults."""
    world, _ = world_with_policy(strategy="OfANewerRelease", unusedTimeout="7s")
    [claim] = world.snapshot.claims.values()
    assert world.snapshot.managed.owns(claim)
    assert world.snapshot.managed.policy(claim).unused_timeout.total_seconds() == 7
    assert open_pods(world) == []


async def test_nobody_knows_which_classes_an_unreadable_policy_covers(unanswered: Client) -> None:
    """Every gate of a claim that is not known to be ours stays shut, with Events on policy and pod; ours are served."""
    world, policy = world_with_policy()
    world.gone(POLICIES, policy)
    assert open_pods(world) == ["p"]
    world.see(POLICIES, {"metadata": {"name": "q"}, "spec": {"deviceClasses": {"newer": "form"}}})
    assert open_pods(world) == []
    world.device_class("managed")
    own = world.claim("own", request("managed"))
    world.pod("served", "own", gates=[GATE])
    world.allocate(own, "n1", "gpu-0")
    assert open_pods(world) == ["served"]
    world.cycle(unanswered).once()
    assert ("q", "Unreadable") in world.warned
    assert ("p", "PolicyUnreadable") in world.warned
    assert ("served", "PolicyUnreadable") not in world.warned


def test_partitions_of_a_layout_that_was_never_readable_stay() -> None:
    """Only those of a layout that is gone are deleted."""
    world = ObservedCluster()
    layout = world.layout(name="l")
    world.gone(LAYOUTS, layout)
    layout["metadata"]["uid"] = "anew"
    layout["spec"] = {"partitions": "newer"}
    world.see(LAYOUTS, layout)
    holder = {"kind": "PartitionLayout", "name": "l", "uid": "anew"}
    spec = {"nodeName": "n1", "driver": GPU, "pool": "n1", "device": "d", "parent": "gpu-0"}
    spec |= {"profile": "1g.10gb", "origin": "Layout", "holder": holder}
    partition = world.see(PARTITIONS, {"metadata": {"name": "n1-d"}, "spec": spec})
    assert partition["metadata"]["uid"] in world.snapshot.partitions
    assert orphans(world.snapshot, ()) == []
    world.gone(LAYOUTS, layout)
    assert len(orphans(world.snapshot, ())) == 1
