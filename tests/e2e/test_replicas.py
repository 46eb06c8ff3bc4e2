"""Two operators: one acts, the other takes over, and nobody writes out of turn. `tests/ha` loses the leader under load."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from testbed.eventually import eventually
from testbed.installation import Installation
from tests.e2e.replicas import LEASES, acting, both_ready, claims_written, holder, holders, leader, serve
from tests.e2e.tenant import Tenant, metric, serving, used_twice


@pytest.fixture(scope="module")
async def two(installation: Installation) -> AsyncIterator[Installation]:
    """Run a second operator beside the first one."""
    second = await installation.start_operator(len(installation.operators))
    yield installation
    await second.stop()
    installation.operators.remove(second)
    await serving(installation)


async def test_only_one_acts(two: Installation, team: Tenant) -> None:
    """The other one keeps a picture and writes nothing but its tries for the lease."""
    await both_ready(two)
    index, _ = await leader(two)

    await serve(team, "one", "two")

    other = 1 - index
    assert await acting(two) == [index]
    assert await metric(two, "apportion_cycles_total", operator=other) == 0
    assert await metric(two, "apportion_allocations_total", operator=other) == 0


async def test_a_leader_that_is_stopped_hands_over_at_once(two: Installation, team: Tenant) -> None:
    """It gives the lease back, so nobody waits for its end."""
    await both_ready(two)
    index, old = await leader(two)
    lease = await two.cluster.api.get(LEASES)
    first, version = lease["spec"]["holderIdentity"], lease["metadata"]["resourceVersion"]
    await old.stop()

    now, _ = await leader(two)
    await serve(team, "after")
    old.start()

    assert now != index
    async with aclosing(holders(two, version)) as changes:
        seen = [first]
        while seen[-1] in {first, ""}:
            seen.append(await anext(changes))
    assert seen[-2] == "", "the next one took it before it was given back"


async def test_a_leader_that_slept_through_its_term_writes_nothing_more(
    two: Installation, team: Tenant
) -> None:
    """Stopped for longer than its lease and woken again: it steps down before its first write."""
    await both_ready(two)
    index, old = await leader(two)
    first = await holder(two)
    pid = old.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        # What it had seen and not yet served is served by the other one.
        await serve(team, "one", "two", "three")
        assert await holder(two) != first
        before = await claims_written(two)
    finally:
        os.kill(pid, signal.SIGCONT)
    await eventually(lambda: metric(two, "apportion_leading", operator=index), lambda now: now == 0)
    now, _ = await leader(two)
    await serve(team, "four")

    assert now != index
    assert "lease.lost" in old.log.read_text()
    assert old.pid == pid
    assert used_twice(await team.claims()) == []
    written = await claims_written(two)
    # The claim and the finalizer of "four" once each: no second writer.
    new = written[len(before) :]
    assert len([each for each in new if each == f"{team.namespace}/four/status"]) == 1
    assert {each.rsplit("/", 1)[0] for each in new if each.endswith("/status")} == {f"{team.namespace}/four"}
