"""The first quota of a cluster, and each new leader: all claims are read, in steps, and nobody else waits for that."""

import asyncio
from datetime import UTC, datetime

from apportion.cluster.client import Client
from apportion.scheduling.pace import AT_ONCE
from apportion.scheduling.quota.charging import Charging
from apportion.scheduling.quota.statuses import QuotaStatuses
from tests.observedcluster import ObservedCluster, request
from tests.quota.tenants import cluster, quota, wait
from tests.steps import Steps

MANY = 10 * AT_ONCE


def allocated() -> ObservedCluster:
    """Return a cluster with many claims that have their GPUs."""
    made = cluster(MANY + 1, "a")
    for number in range(MANY):
        made.allocate(made.claim(f"c{number}", request("gpu"), namespace="a"), "n1", f"gpu-{number}")
    return made


async def test_statuses_read_the_claims_of_a_first_quota_in_steps(unanswered: Client) -> None:
    """20,000 in one step held the watches, the lease and the pass that was under way for 1.7 s."""
    world = allocated()
    cycle = world.cycle(unanswered)
    quota(world, "a", limit=5)
    statuses = QuotaStatuses(
        unanswered,
        world.snapshot,
        world.recorder(unanswered),
        cycle.quotas,
        fence=lambda: None,
        now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
    )
    acting, counts = asyncio.create_task(statuses.act()), list[int]()
    while not acting.done():
        with Steps(Charging._look) as counted:
            await asyncio.sleep(0)
        counts.append(counted.count)
    await acting
    assert (sum(counts), max(counts) <= AT_ONCE) == (MANY, True)
    [use] = cycle.quotas.charging.usage
    assert use.used == [MANY * 10**9]


async def test_a_first_quota_that_comes_within_a_pass_is_charged_by_the_next_one(unanswered: Client) -> None:
    """Those that obey it wait for that: nobody knows yet what is left."""
    world = allocated()
    wait(world, "a", "a0")
    cycle = world.cycle(unanswered)
    with Steps(Charging._look) as counted:
        passing = cycle._pass(longest=1e9, evaluates=False)
        for _ in passing:
            if cycle.quotas.waiting:
                break  # what waits is known, and nothing is decided
        quota(world, "a", limit=5)
        for _ in passing:
            pass
    assert (counted.count, "a0" in world.places()) == (0, False)
    cycle.once()
    assert (len(cycle.quotas.over), "a0" in world.places()) == (1, False)
