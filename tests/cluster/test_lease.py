"""One replica acts: the Lease on a real API server, with clocks that the test moves."""

from collections import Counter

import pytest

from apportion.cluster.client import Client
from apportion.errors import NotLeading
from testbed.eventually import eventually
from tests.clock import Clock
from tests.cluster.leases import has_tried, leads, lease, running


async def test_the_first_one_leads_and_the_second_waits(client: Client, namespace: str) -> None:
    """A follower may not write."""
    tries = Counter[str]()
    first, second = lease(namespace, "a", Clock()), lease(namespace, "b", Clock(), tries)
    async with running(first, client):
        await eventually(lambda: leads(first))
        async with running(second, client):
            await has_tried(tries, "b")
            assert second.remaining() == 0
            with pytest.raises(NotLeading):
                second.fence()
            first.fence()


async def test_a_leader_that_goes_hands_over_at_once(client: Client, namespace: str) -> None:
    """A rolling update does not wait for the term to end."""
    first, second = lease(namespace, "a", Clock()), lease(namespace, "b", Clock())
    async with running(second, client):
        async with running(first, client):
            await eventually(lambda: leads(first) if first.remaining() else leads(second))
        await eventually(lambda: leads(second))


async def test_nobody_takes_over_before_the_term_has_ended_by_his_own_clock(
    client: Client, namespace: str
) -> None:
    """The dead leader's clock does not matter, nor does what it wrote as time."""
    first, clock, tries = lease(namespace, "a", Clock()), Clock(), Counter[str]()
    second = lease(namespace, "b", clock, tries)
    await first._take(client)  # wins, and is never heard of again
    async with running(second, client):
        await has_tried(tries, "b")
        clock.now += 14
        await has_tried(tries, "b")
        assert second.remaining() == 0
        clock.now += 2
        await eventually(lambda: leads(second))


async def test_a_leader_that_cannot_renew_stops_writing_in_time(client: Client, namespace: str) -> None:
    """A write may begin only while the rest of the term is longer than the request may take."""
    clock = Clock()
    only = lease(namespace, "a", clock)
    async with running(only, client):
        await eventually(lambda: leads(only))
    held = lease(namespace, "b", clock)
    assert await held._take(client)
    held._until = clock.now + 15
    held.fence()
    clock.now += 10.5
    with pytest.raises(NotLeading, match=r"4\.5 s left"):
        held.fence()
