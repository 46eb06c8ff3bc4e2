"""A Lease that somebody deletes or empties: its holder does not know yet, and may write."""

from collections.abc import Callable

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import LEASES
from testbed.eventually import eventually
from tests.clock import Clock
from tests.cluster.apiserver import ApiServer
from tests.cluster.emptyserver import client, server
from tests.cluster.leases import leads, lease, running

__all__ = ["client", "server"]

NAMESPACE = "apportion-system"


def deletes(server: ApiServer) -> None:
    server.drop(LEASES, "test", NAMESPACE)


def takes_its_holder_out(server: ApiServer) -> None:
    found = server.get(LEASES, "test", NAMESPACE)
    server.put(LEASES, {**found, "spec": {**found["spec"], "holderIdentity": ""}})


def empties(server: ApiServer) -> None:
    server.put(LEASES, {**server.get(LEASES, "test", NAMESPACE), "spec": {}})


damages = pytest.mark.parametrize("damage", [deletes, takes_its_holder_out, empties])
Damage = Callable[[ApiServer], None]


async def tries(server: ApiServer, *, more: int = 5) -> None:
    """Wait until the replicas have asked for the lease a few times more."""
    before = len(server.requests)

    async def is_asked() -> bool:
        return len(server.requests) >= before + more

    await eventually(is_asked)


async def holder(server: ApiServer) -> str:
    """Return who holds the Lease; empty: nobody does, or there is none."""
    found = server.all(LEASES)
    return str(found[0]["spec"].get("holderIdentity", "")) if found else ""


@damages
async def test_a_follower_waits_for_the_end_of_the_term(
    server: ApiServer, client: Client, damage: Damage
) -> None:
    """Two leaders would give one device to two claims."""
    clock = Clock()
    first, second = lease(NAMESPACE, "a", clock), lease(NAMESPACE, "b", clock)
    await first._attempt(client)
    async with running(second, client):
        await tries(server)
        damage(server)
        await tries(server)
        first.fence()
        assert second.remaining() == 0
        clock.now += 14
        await tries(server)
        assert second.remaining() == 0
        clock.now += 2
        await eventually(lambda: leads(second))


@damages
async def test_its_holder_makes_it_anew_and_leads_on(
    server: ApiServer, client: Client, damage: Damage
) -> None:
    """It knows that nobody else leads, and nobody has to wait."""
    clock = Clock()
    first, second = lease(NAMESPACE, "a", clock), lease(NAMESPACE, "b", clock)
    async with running(first, client):
        await eventually(lambda: leads(first))
        async with running(second, client):
            await tries(server)
            damage(server)
            await eventually(lambda: holder(server), lambda found: found == "a")
            await tries(server, more=10)
            assert await holder(server) == "a"
            assert first.remaining() == 15
            assert second.remaining() == 0


async def test_without_a_former_one_nobody_waits(client: Client) -> None:
    """An operator that was just installed leads at once."""
    only = lease(NAMESPACE, "a", Clock())
    async with running(only, client):
        await eventually(lambda: leads(only))


@pytest.mark.parametrize("damage", [takes_its_holder_out, empties])
async def test_who_has_only_just_come_waits_for_a_term_too(
    server: ApiServer, client: Client, damage: Damage
) -> None:
    """It has not seen who held the Lease, and that one may write."""
    clock = Clock()
    first, second = lease(NAMESPACE, "a", clock), lease(NAMESPACE, "b", clock)
    await first._attempt(client)
    damage(server)
    async with running(second, client):
        await tries(server)
        assert second.remaining() == 0
        clock.now += 16
        await eventually(lambda: leads(second))
