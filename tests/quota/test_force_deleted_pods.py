"""Who deletes a pod by force is charged for its devices as long as its containers run.

A tenant may: `kubectl delete pod --force`, with a terminationGracePeriodSeconds of a year, for which kubelet waits. The agent taints the devices
(`apportion.dev/held`) when it has seen that the claim is gone, up to ten seconds later.
"""

import pytest

from apportion.cluster.client import Client
from apportion.cluster.cutoffclaims import PATIENCE
from apportion.cluster.kinds import CLAIMS, PARTITIONS, PODS
from tests.observedcluster import GPU, Json, ObservedCluster
from tests.quota.tenants import cluster, quota, wait


def publish(world: ObservedCluster, *held: str) -> None:
    """Publish four GPUs; `held`: the claims (UIDs) for which the first ones are still prepared."""
    devices: list[Json] = [{"name": f"gpu-{number}"} for number in range(4)]
    for device, claim in zip(devices, held, strict=False):
        device["taints"] = [{"key": "apportion.dev/held", "value": claim, "effect": "NoSchedule"}]
    world.slice("n1", "n1-devices", {"devices": devices}, 1)


def run(world: ObservedCluster) -> str:
    """Let a pod of the tenant run with the first GPU; returns the UID of its claim."""
    raw = wait(world, "a", "runs")
    pod = world.seen[PODS, "a", "runs"]
    result = {"request": "gpu", "driver": GPU, "pool": "n1", "device": "gpu-0"}
    consumer = {"resource": "pods", "name": "runs", "uid": pod["metadata"]["uid"]}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [consumer]}
    world.see(CLAIMS, raw | {"status": status})
    world.see(PODS, pod | {"spec": pod["spec"] | {"nodeName": "n1"}, "status": {"phase": "Running"}})
    return str(raw["metadata"]["uid"])


def collect(world: ObservedCluster, *, deallocated: bool = False) -> None:
    """Let controller-manager take a claim back, as it does when its pod is gone."""
    raw = world.seen[CLAIMS, "a", "runs"]
    if deallocated:
        world.see(CLAIMS, {key: value for key, value in raw.items() if key != "status"})
    world.gone(CLAIMS, raw)


@pytest.fixture
def world() -> ObservedCluster:
    """Four GPUs, of which a tenant may have one."""
    made = cluster(4, "a")
    quota(made, "a", limit=1)
    publish(made)
    return made


@pytest.mark.parametrize("deallocated", [False, True], ids=["deleted", "deallocated, then deleted"])
@pytest.mark.parametrize("claim_first", [False, True], ids=["pod first", "claim first"])
async def test_devices_are_charged_until_they_are_unprepared(
    world: ObservedCluster, silent: Client, *, deallocated: bool, claim_first: bool
) -> None:
    """A tenant with a limit of one GPU had the whole cluster, pod by pod."""
    cycle, claim = world.cycle(silent), run(world)
    cycle.once()
    if claim_first:  # the watch of pods is late
        collect(world, deallocated=deallocated)
    world.gone(PODS, world.seen[PODS, "a", "runs"])
    if not claim_first:
        collect(world, deallocated=deallocated)
    wait(world, "a", "next", at=1)
    cycle.once()
    publish(world, claim)
    world.clock.now += 10 * PATIENCE
    cycle.once()
    assert "next" not in world.places()
    publish(world)
    cycle.once()
    assert "next" in world.places()


@pytest.mark.parametrize("second", [False, True], ids=["kept for a while", "used by a second pod"])
async def test_devices_that_outlast_the_reservation_are_charged_until_they_are_unprepared(
    world: ObservedCluster, silent: Client, *, second: bool
) -> None:
    """controller-manager took the reservation of the pod that was deleted by force before the claim lost its devices."""
    cycle, claim = world.cycle(silent), run(world)
    raw = world.seen[CLAIMS, "a", "runs"]
    other = world.pod("other", "runs", namespace="a", spec={"nodeName": "n1"})
    consumers = [{"resource": "pods", "name": "other", "uid": other["metadata"]["uid"]}] if second else []
    cycle.once()
    world.gone(PODS, world.seen[PODS, "a", "runs"])
    raw = raw | {"status": raw["status"] | {"reservedFor": consumers}}
    world.see(CLAIMS, raw)
    world.see(PODS, other | {"status": {"phase": "Succeeded"}})
    collect(world, deallocated=True)
    wait(world, "a", "next", at=1)
    cycle.once()
    publish(world, claim)
    world.clock.now += 10 * PATIENCE
    cycle.once()
    assert "next" not in world.places()
    publish(world)
    cycle.once()
    assert "next" in world.places()


async def test_a_claim_that_runs_with_another_partition_is_charged_for_that_one_alone(
    world: ObservedCluster, silent: Client
) -> None:
    """Its Partition says that it is prepared; that is no report of the device that it lost to a pod deleted by force."""
    quota(world, "a", limit=2)
    cycle, claim = world.cycle(silent), run(world)
    raw = world.seen[CLAIMS, "a", "runs"]
    cycle.once()
    world.gone(PODS, world.seen[PODS, "a", "runs"])
    world.see(CLAIMS, {key: value for key, value in raw.items() if key != "status"})
    cycle.once()
    world.clock.now += PATIENCE
    cycle.once()
    result = {"request": "gpu", "driver": GPU, "pool": "n1", "device": "gpu-1"}
    world.see(CLAIMS, raw | {"status": {"allocation": {"devices": {"results": [result]}}}})
    spec = {"nodeName": "n1", "driver": GPU, "pool": "n1", "device": "gpu-1", "parent": "gpu-9"}
    spec |= {"profile": "1g.10gb", "origin": "Claim"}
    status = {"phase": "Ready", "preparedBy": [claim]}
    world.see(PARTITIONS, {"metadata": {"name": "n1-gpu-1"}, "spec": spec, "status": status})
    wait(world, "a", "next", at=1)
    cycle.once()
    assert "next" in world.places()


async def test_devices_that_no_agent_reports_are_charged_until_it_had_the_time_to(
    world: ObservedCluster, silent: Client
) -> None:
    """The containers ended soon after, as they do as a rule; or the node is dead."""
    cycle = world.cycle(silent)
    run(world)
    cycle.once()
    world.gone(PODS, world.seen[PODS, "a", "runs"])
    collect(world)
    wait(world, "a", "next", at=1)
    cycle.once()
    world.clock.now += PATIENCE - 1
    cycle.once()
    assert "next" not in world.places()
    world.clock.now += 1
    cycle.once()
    assert "next" in world.places()


async def test_devices_are_charged_when_an_agent_reports_them_late(
    world: ObservedCluster, silent: Client
) -> None:
    """It was away, or the operator that follows them has just become the leader."""
    claim = run(world)
    world.gone(PODS, world.seen[PODS, "a", "runs"])
    collect(world)
    cycle = world.cycle(silent)
    publish(world, claim)
    wait(world, "a", "next", at=1)
    cycle.once()
    assert "next" not in world.places()


async def test_a_claim_that_gets_back_what_it_lost_is_charged_once(
    world: ObservedCluster, silent: Client
) -> None:
    """Nobody made it from a template, so that it stays, and another pod uses it."""
    quota(world, "a", limit=2)
    cycle, claim = world.cycle(silent), run(world)
    raw = world.seen[CLAIMS, "a", "runs"]
    cycle.once()
    world.gone(PODS, world.seen[PODS, "a", "runs"])
    world.see(CLAIMS, {key: value for key, value in raw.items() if key != "status"})
    publish(world, claim)
    cycle.once()
    world.see(CLAIMS, raw)
    wait(world, "a", "next", at=1)
    cycle.once()
    assert "next" in world.places()
