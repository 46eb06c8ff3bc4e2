"""Allocations of pods that no scheduler takes: given back when others wait for the devices."""

import asyncio

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, CLASSES, PODS
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.givenback import UNUSED_TIMEOUT, ended, hoarded, tried
from tests.scheduling.queued import fleet
from tests.scheduling.reservedahead import consumer

RDMA = "rdma.apportion.dev"
ZONE: Json = {
    "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
}


async def test_a_pod_that_no_scheduler_takes_does_not_keep_what_another_waits_for(unanswered: Client) -> None:
    """A mistyped volume claim, another driver's devices that are not there: nobody ever reserves the allocation."""
    world, _ = hoarded()
    cycle = world.cycle(unanswered)
    assert await tried(cycle) == []
    world.clock.now += UNUSED_TIMEOUT - 1
    assert await tried(cycle) == []
    world.clock.now += 2
    assert await tried(cycle) == ["kept"]


@pytest.mark.parametrize(
    "where", [{"allNodes": True}, {"nodeSelector": ZONE}], ids=["all nodes", "nodes of a zone"]
)
async def test_a_device_that_several_nodes_reach_is_given_back_as_well(
    unanswered: Client, where: Json
) -> None:
    """Its allocation names no node."""
    world = ObservedCluster()
    world.device_class("gpu")
    for node in ("n1", "n2"):
        world.node(node, zone="a")
    world.slice("", "fabric", {"nodeName": None, "devices": [{"name": "gpu-0"}], **where}, 1, pool="net")
    claim = world.claim("kept")
    world.allocate(claim, "net", "gpu-0")
    term = ZONE if "nodeSelector" in where else None
    claim["status"]["allocation"]["nodeSelector"] = term
    world.see(CLAIMS, claim)
    world.pod("stuck", "kept")
    world.wait_for("waiting", request("gpu"))
    cycle = world.cycle(unanswered)
    assert await tried(cycle) == []
    world.clock.now += UNUSED_TIMEOUT + 1
    assert await tried(cycle) == ["kept"]


async def test_what_nobody_else_waits_for_is_kept(unanswered: Client) -> None:
    """The pod may be waiting for a volume that is being made."""
    world, _ = hoarded()
    waiting = next(pod for pod in world.snapshot.pods.values() if pod.name == "waiting")
    world.gone(PODS, {"metadata": {"name": "waiting", "uid": waiting.uid}})
    cycle = world.cycle(unanswered)
    await tried(cycle)
    world.clock.now += UNUSED_TIMEOUT + 1
    assert await tried(cycle) == []


async def test_those_who_wait_for_something_else_take_nothing_away(unanswered: Client) -> None:
    """The device would not help them."""
    world = fleet({"n1": ("h100", 1)})
    world.allocate(world.claim("kept"), "n1", "gpu-0")
    world.pod("stuck", "kept")
    world.wait_for("waiting", request("gpu", count=2))
    cycle = world.cycle(unanswered)
    await tried(cycle)
    world.clock.now += UNUSED_TIMEOUT + 1
    assert await tried(cycle) == []


async def test_only_as_much_is_given_back_as_is_waited_for(unanswered: Client) -> None:
    """Of three, those that wait for two get the two that were kept the longest."""
    world = fleet({"n1": ("h100", 3)})
    cycle = world.cycle(unanswered)
    for number in range(3):
        name = f"kept-{number}"
        world.allocate(world.claim(name), "n1", f"gpu-{number}")
        world.pod(name, name)
        await tried(cycle)
        world.clock.now += 1
    world.wait_for("waiting", request("gpu", count=2))
    world.clock.now += UNUSED_TIMEOUT
    assert await tried(cycle) == ["kept-0", "kept-1"]


@pytest.mark.slow
async def test_a_reserved_allocation_and_one_whose_partition_is_being_cut_are_kept(
    unanswered: Client,
) -> None:
    """The pod is about to run."""
    world, claim = hoarded(gates=(GATE,))
    cycle = world.cycle(unanswered)
    await tried(cycle)
    world.clock.now += UNUSED_TIMEOUT + 1
    assert await tried(cycle) == []
    world, claim = hoarded()
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": "stuck", "uid": "u"}]
    world.see(CLAIMS, claim)
    cycle = world.cycle(unanswered)
    await tried(cycle)
    world.clock.now += UNUSED_TIMEOUT + 1
    assert await tried(cycle) == []


async def test_a_gated_pod_whose_other_claim_went_away_keeps_nothing(unanswered: Client) -> None:
    """Its gate stays, so nobody else would ever give the devices back."""
    world, _ = hoarded()
    stuck = next(pod for pod in world.snapshot.pods.values() if pod.name == "stuck")
    world.gone(PODS, {"metadata": {"name": "stuck", "uid": stuck.uid}})
    world.pod("gated", "kept", "missing", gates=(GATE,))
    cycle = world.cycle(unanswered)
    await tried(cycle)
    world.clock.now += UNUSED_TIMEOUT + 1
    assert await tried(cycle) == ["kept"]


async def test_a_gated_pod_with_a_claim_without_devices_whose_class_went_away_keeps_nothing(
    unanswered: Client,
) -> None:
    """kube-scheduler would have allocated it; nothing of the pod and its claims changes then."""
    world, _ = hoarded()
    world.gone(PODS, world.seen[PODS, "team", "stuck"])
    late = world.device_class("late", other="x")
    world.claim("other", request("late"))
    world.pod("gated", "kept", "other", gates=(GATE,))
    cycle = world.cycle(unanswered)
    await tried(cycle)
    world.gone(CLASSES, late)
    await tried(cycle)
    world.clock.now += UNUSED_TIMEOUT + 1
    assert await tried(cycle) == ["kept"]


def behind(**spec: Json) -> tuple[ObservedCluster, Json]:
    """Return a pod that has a GPU and waits behind its gate for the end of another, of this spec, which has the network device of a claim that both name."""
    world = ObservedCluster()
    for name in ("gpu", "rdma"):
        world.device_class(name)
    world.node("n1")
    world.slice("n1", "s", {"devices": [{"name": "gpu-0"}]}, 1)
    world.slice("n1", "nics", {"devices": [{"name": "nic"}], "driver": RDMA}, 1)
    asked = {"apiVersion": "config.apportion.dev/v1alpha1", "kind": "NetworkConfig"}
    opaque = {"driver": RDMA, "parameters": asked}
    first = world.pod("first", "net", spec=spec)
    claim = world.claim("net", request("rdma"), config=[{"opaque": opaque}])
    net = world.allocate(claim, "n1", "nic", reservedFor=[consumer(first)] if spec else [])
    devices = net["status"]["allocation"]["devices"]
    devices["results"][0]["driver"] = RDMA
    devices["config"] = [{"source": "FromClaim", "requests": [], "opaque": opaque}]
    world.see(CLAIMS, net)
    world.allocate(world.claim("kept"), "n1", "gpu-0")
    world.pod("second", "net", "kept", gates=[GATE])
    return world, first


@pytest.mark.parametrize("others", [True, False])
async def test_a_pod_that_waits_for_the_end_of_another_keeps_no_device_that_others_wait_for(
    unanswered: Client, *, others: bool
) -> None:
    """The end of a pod may be days away."""
    world, _ = behind(nodeName="n1")
    if others:
        world.wait_for("waiting", request("gpu"))
    cycle = world.cycle(unanswered)
    await tried(cycle)
    world.clock.now += UNUSED_TIMEOUT - 1
    assert await tried(cycle) == []
    world.clock.now += 1
    assert await tried(cycle) == (["kept"] if others else [])


async def test_a_pod_that_also_waits_for_a_claim_keeps_no_device_that_others_wait_for(
    unanswered: Client,
) -> None:
    """Of two reasons why it does not start one is enough."""
    world, _ = behind(nodeName="n1")
    world.pod("second", "net", "kept", "missing", gates=[GATE])
    world.wait_for("waiting", request("gpu"))
    cycle = world.cycle(unanswered)
    await tried(cycle)
    world.clock.now += UNUSED_TIMEOUT
    assert await tried(cycle) == ["kept"]


@pytest.mark.parametrize("how", ["is over", "is gone", "is gone before it was bound"])
async def test_a_pod_that_starts_after_anothers_end_keeps_its_devices(unanswered: Client, how: str) -> None:
    """However long it waited: a scheduler needs a moment to take it."""
    world, first = behind(**({"nodeName": "n1"} if how in {"is over", "is gone"} else {}))
    cycle = world.cycle(unanswered)
    await tried(cycle)
    world.clock.now += UNUSED_TIMEOUT + 1
    world.wait_for("waiting", request("gpu"))
    if how == "is over":
        world.see(PODS, first | {"status": {"phase": "Succeeded"}})
    else:
        world.gone(PODS, first)
    if how in {"is over", "is gone"}:
        net = world.seen[CLAIMS, "team", "net"]
        net["status"]["reservedFor"] = []
        world.see(CLAIMS, net)
    assert await tried(cycle) == []
    world.pod("second", "net", "kept")
    assert await tried(cycle) == []
    world.clock.now += UNUSED_TIMEOUT - 1
    assert await tried(cycle) == []


async def test_a_claim_that_was_given_back_waits_behind_the_others(unanswered: Client) -> None:
    """The pod is tried again after a while, so that it starts once it can; its users can read until when it waits."""
    world, claim = hoarded()
    cycle = world.cycle(unanswered)
    await tried(cycle)
    world.clock.now += UNUSED_TIMEOUT + 1
    await tried(cycle)
    claim["status"] = {}
    world.snapshot.clearing(claim["metadata"]["uid"])
    world.see(CLAIMS, claim)
    before = asyncio.all_tasks()
    cycle.once()
    assert world.places() == {"waiting": "n1"}
    assert ("stuck", "ClaimsNotAllocated") in world.warned
    await ended(before)
    world.gone(PODS, {"metadata": {"name": "waiting", "uid": "uid-team-pods-waiting"}})
    cycle.once()
    assert world.places() == {}
    world.clock.now += UNUSED_TIMEOUT + 1
    cycle.once()
    assert world.places() == {"kept": "n1"}


@pytest.mark.slow
async def test_demands_that_nothing_helps_keep_no_stalled_allocation_from_those_behind_them(
    unanswered: Client,
) -> None:
    """They wait first in the queue, here for two devices of a node that has one; those behind them are asked about in turn."""
    world, _ = hoarded()
    old = "2025-01-01T00:00:00Z"
    for number in range(20):
        world.claim(f"a{number}", request("gpu", count=2), creationTimestamp=old)
        world.pod(f"a{number}", f"a{number}")["metadata"]["creationTimestamp"] = old
    cycle, given = world.cycle(unanswered), list[str]()
    for _ in range(6):
        given += await tried(cycle)
        world.clock.now += UNUSED_TIMEOUT
    assert "kept" in given
