"""Statuses say what is used, borrowed and waited for, and are equal as long as nothing changed."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from apportion.api.conditions import same
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS
from apportion.scheduling.cycle import Cycle
from apportion.scheduling.quota.status import quota_status
from apportion.scheduling.quota.statuses import QuotaStatuses
from tests.observedcluster import ObservedCluster, request
from tests.quota.tenants import GPUS, cluster, leave, quota, said, wait

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def status(world: ObservedCluster, cycle: Cycle, name: str = "a") -> dict[str, Any]:
    """Return the status of a quota after a pass."""
    cycle.once()
    cycle.quotas.charging.follow()
    [use] = [each for each in cycle.quotas.charging.usage if each.name == name]
    waiting = cycle.quotas.pending().get(name, [])
    return quota_status(use, waiting, cycle.quotas.totals, world.snapshot, NOW)


def reasons(found: dict[str, Any]) -> dict[str, str]:
    """Return the reason of each condition."""
    return {each["type"]: each["reason"] for each in found["conditions"]}


async def test_a_status_follows_use_limit_and_what_waits(silent: Client) -> None:
    """Within the guarantee, borrowing, at the limit; then beyond it, because it was lowered."""
    world = cluster(8, "a", "b")
    quota(world, "a", guaranteed=1, limit=3)
    cycle = world.cycle(silent)
    for count, (reason, borrowed, share) in enumerate(
        [("WithinGuarantee", "0", 0), ("Borrowing", "1", 125), ("LimitReached", "2", 250)], start=1
    ):
        wait(world, "a", f"a{count}", at=count)
        cycle.once()
        found = status(world, cycle)
        assert (found["summary"], found["pending"], found["share"]) == (f"gpus {count}/3", 0, share)
        assert (found["resources"][0]["reason"], found["resources"][0]["borrowed"]) == (reason, borrowed)
        right = dict.fromkeys(("Accepted", "Exclusive", "Resolved"), "Valid")
        assert reasons(found) == right | {"Served": "NothingWaits"}
    wait(world, "a", "a4", at=4)
    found = status(world, cycle)
    assert (found["pending"], found["resources"][0]["pending"]) == (1, 1)
    assert reasons(found)["Served"] == "ExceedsLimit"
    assert found["conditions"][2]["message"] == "1 wait for the limit of gpus"
    assert same(found, status(world, cycle))
    quota(world, "a", guaranteed=1, limit=2)
    assert status(world, cycle)["resources"][0]["reason"] == "BeyondLimit"
    leave(world, "a", "a1")
    assert not same(found, status(world, cycle))


async def test_what_waits_for_devices_that_are_guaranteed_does_not_wait_for_the_limit(
    silent: Client,
) -> None:
    """Quota and room are told apart."""
    world = cluster(1, "a", "b")
    wait(world, "b", "b0")
    cycle = world.cycle(silent)
    cycle.once()
    quota(world, "a", guaranteed=1, limit=3)
    wait(world, "a", "a0", at=1)
    cycle.once()
    found = status(world, cycle)
    assert reasons(found)["Served"] == "WaitsForDevices"
    assert found["conditions"][2]["message"] == "1 wait for devices, which are guaranteed"


async def test_a_quota_that_allows_what_the_topology_does_not_is_distinguished(silent: Client) -> None:
    """Two GPUs are left of the quota and of the cluster, but not on one socket (Kueue 10815, 10089): the next tenant is served."""
    world = cluster(0, "a", "b")
    devices = [{"name": f"gpu-{number}", "attributes": {"socket": {"int": number}}} for number in range(2)]
    world.slice("n1", "n1-sockets", {"devices": devices}, 1, pool="sockets")
    quota(world, "a", GPUS | {"limit": 2})
    wait(world, "a", "a0")
    constraint = {"matchAttribute": "gpu.apportion.dev/socket", "requests": ["gpu"]}
    spec = {"devices": {"requests": [request("gpu", count=2)], "constraints": [constraint]}}
    world.see(CLAIMS, {"metadata": {"name": "a0", "namespace": "a"}, "spec": spec})
    wait(world, "b", "b0", at=9)
    cycle = world.cycle(silent)
    cycle.once()
    assert world.places().keys() == {"b0"}
    assert said(world, "a0", "NotAllocated")[0].endswith("AcceleratorQuota a would allow it")
    assert reasons(status(world, cycle))["Served"] == "WaitsForDevices"


async def test_a_limit_that_is_set_while_statuses_are_written_counts(unanswered: Client) -> None:
    """What the writer sees first is not taken for what the use was counted by: the quota would keep its former limit until its next change."""
    world = cluster(8, "a")
    quota(world, "a", limit=8)
    cycle = world.cycle(unanswered)
    wait(world, "a", "a0")
    cycle.once()
    recorder = world.recorder(unanswered)
    statuses = QuotaStatuses(
        unanswered, world.snapshot, recorder, cycle.quotas, fence=lambda: None, now=lambda: NOW
    )
    writing = asyncio.create_task(statuses.act())
    await asyncio.sleep(0)
    quota(world, "a", limit=2)
    await writing
    for number in range(1, 8):
        wait(world, "a", f"a{number}", at=number)
    cycle.once()
    assert len(world.places()) == 2
