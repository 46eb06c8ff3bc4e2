"""A Lease that somebody deletes: its holder does not know yet, and may write."""

from collections.abc import AsyncIterator

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import LEASES
from testbed.eventually import eventually
from tests.clock import Clock
from tests.cluster.apiserver import ApiServer
from tests.cluster.leases import leads, lease, running

NAMESPACE = "apportion-system"


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    """Serve in memory."""
    async with ApiServer().serving() as made:
        yield made


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[Client]:
    """Talk to it."""
    async with server.client() as made:
        yield made


async def tries(server: ApiServer, *, more: int = 5) -> None:
    """Wait until the replicas have asked for the lease a few times more."""
    before = len(server.requests)

    async def is_asked() -> bool:
        return len(server.requests) >= before + more

    await eventually(is_asked)


async def test_a_follower_waits_for_the_end_of_the_term(server: ApiServer, client: Client) -> None:
    """Two leaders would give one device to two claims."""
    clock = Clock()
    first, second = lease(NAMESPACE, "a", clock), lease(NAMESPACE, "b", clock)
    await first._attempt(client)
    async with running(second, client):
        await tries(server)
        server.drop(LEASES, "test", NAMESPACE)
        await tries(server)
        first.fence()
        assert second.remaining() == 0
        clock.now += 14
        await tries(server)
        assert second.remaining() == 0
        clock.now += 2
        await eventually(lambda: leads(second), within=5)


async def test_its_holder_makes_it_anew_and_leads_on(server: ApiServer, client: Client) -> None:
    """It knows that nobody else leads, and nobody has to wait."""
    clock = Clock()
    first, second = lease(NAMESPACE, "a", clock), lease(NAMESPACE, "b", clock)
    async with running(first, client):
        await eventually(lambda: leads(first))
        async with running(second, client):
            await tries(server)
            server.drop(LEASES, "test", NAMESPACE)
            await tries(server, more=10)
            assert server.get(LEASES, "test", NAMESPACE)["spec"]["holderIdentity"] == "a"
            assert first.remaining() == 15
            assert second.remaining() == 0


async def test_without_a_former_one_nobody_waits(client: Client) -> None:
    """An operator that was just installed leads at once."""
    only = lease(NAMESPACE, "a", Clock())
    async with running(only, client):
        await eventually(lambda: leads(only), within=5)
