"""The leader is lost at a random moment under load: allocation goes on within the lease's term, and nothing is given twice."""

import asyncio
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import pytest

from testbed.beside import beside
from testbed.binaries import Binaries
from testbed.checker import settled
from testbed.demo.nodes import h100
from testbed.eventually import eventually
from testbed.soak import workload
from tests.e2e.replicas import both_ready, holder, leader
from tests.e2e.tenant import LEASE, metric
from tests.ha.lateness import Lateness
from tests.ha.replicapair import Pair, replica_pair

LEASE_SECONDS = float(LEASE[1])
TAKE_OVER_SECONDS = LEASE_SECONDS + 2.0
"""Within which the first allocation after the loss has to be made."""
_PAUSE = 0.25
"""Seconds between two pods."""
_LOOK_SECONDS = 0.05


@pytest.fixture(scope="module")
async def pair(binaries: Binaries) -> AsyncIterator[Pair]:
    """Run two replicas for two nodes with eight H100 each."""
    async with replica_pair(binaries, [h100("h100-a"), h100("h100-b")]) as made:
        yield made


async def killed(pair: Pair, index: int) -> Callable[[], None]:
    """SIGKILL: the supervisor starts it again, as another replica."""
    pair.installation.operators[index].kill()
    return lambda: None


async def stopped(pair: Pair, index: int) -> Callable[[], None]:
    """SIGSTOP: it sleeps, and wakes in the belief that it leads."""
    pid = pair.installation.operators[index].pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    return lambda: os.kill(pid, signal.SIGCONT)


async def cut_off(pair: Pair, index: int) -> Callable[[], None]:
    """Nothing reaches the API server or comes from there, and nobody says so."""
    pair.proxies[index].part()
    return pair.proxies[index].heal


async def coming(pair: Pair, prefix: str, names: list[str]) -> None:
    """Make a pod with a partition, again and again."""
    while True:
        name = f"{prefix}-{len(names):03d}"
        await pair.tenant.make({"kind": "Pod", **workload.pod(name, resourceClaimTemplateName="1g10gb")})
        names.append(name)
        await asyncio.sleep(_PAUSE)


async def first_allocation_of_the_next(pair: Pair, before: str) -> float:
    """Wait until another replica holds the lease and a claim gets devices; returns when that was."""

    async def other() -> bool:
        return await holder(pair.installation) != before

    await eventually(other)
    count = pair.checker.allocations

    async def allocated() -> bool:
        return pair.checker.allocations > count

    await eventually(allocated)
    return time.monotonic()


@pytest.mark.slow
@pytest.mark.parametrize("lose", [killed, stopped, cut_off])
async def test_allocation_goes_on_within_the_term_of_the_lease(
    pair: Pair, lose: Callable[[Pair, int], Awaitable[Callable[[], None]]]
) -> None:
    """Pods come all the time; those of the outage are served, and no device twice."""
    await both_ready(pair.installation)
    index, _ = await leader(pair.installation)
    before = await holder(pair.installation)
    names: list[str] = []
    load = asyncio.create_task(coming(pair, lose.__name__.replace("_", "-"), names))
    await asyncio.sleep(random.uniform(1, 4))  # noqa: S311 - at any moment, another one in each run

    lateness = Lateness(lambda: holder(pair.installation))
    lost = time.monotonic()
    mend = await lose(pair, index)
    try:
        async with beside(lateness.count()):
            took = await first_allocation_of_the_next(pair, before) - lost
    finally:
        mend()
        load.cancel()
        with suppress(asyncio.CancelledError):
            await load

    async def waiting() -> list[str]:
        phases = {
            raw["metadata"]["name"]: raw.get("status", {}).get("phase") for raw in pair.checker.pods.values()
        }
        return [name for name in names if phases.get(name) != "Running"]

    await settled(pair.checker, waiting, within=60)
    await settled(pair.checker, pair.checker.at_rest, within=30)
    assert took - lateness.seconds < TAKE_OVER_SECONDS
    now, _ = await leader(pair.installation)
    if lose is not killed:
        assert now != index
        assert await metric(pair.installation, "apportion_leading", operator=index) == 0

    await pair.installation.cluster.api.delete_all(pair.tenant.path("Pod"))

    async def left() -> list[str]:
        return [str(raw["metadata"]["name"]) for raw in pair.checker.claims.values()]

    await settled(pair.checker, left, within=60)
