"""Fitness of a leader of which kinds are not served, or not heard of, any more."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from apportion.cluster.kinds import LAYOUTS
from apportion.cluster.reflector import Reflector
from apportion.fitness import Fitness
from apportion.parts import Parts
from testbed.beside import beside
from testbed.eventually import eventually
from tests.clock import Clock
from tests.cluster.apiserver import ApiServer, failed
from tests.cluster.emptyserver import server

__all__ = ["server"]


@asynccontextmanager
async def leader(server: ApiServer, clock: Clock) -> AsyncIterator[tuple[Reflector, Fitness]]:
    """Observe layouts, of which nothing changes, and lead from now on."""
    since = clock.now
    async with server.client() as client:
        reflector = Reflector(client, LAYOUTS, lambda *_: None, clock=clock)
        fitness = Fitness(
            [reflector],
            Parts(),
            held=lambda: clock.now - since,
            age=lambda: 0.0,
            within=30.0,
            stuck=60.0,
        )
        fitness.set_acting(acting=True)
        async with beside(reflector.run()):
            await reflector.synced.wait()
            yield reflector, fitness


async def test_a_leader_keeps_the_lease_while_a_quiet_kind_is_not_served_for_a_moment(
    server: ApiServer,
) -> None:
    """A CRD is made anew, or an API server starts: of a quiet kind nothing was heard for up to a minute before."""
    clock = Clock()
    async with leader(server, clock) as (reflector, fitness):
        clock.now += 59
        server.unserved.add(LAYOUTS)
        server.end_watches()

        async def listed() -> bool:
            return reflector.synced.is_set()

        await eventually(listed, lambda found: not found)
        assert fitness.unfit() is None
        clock.now += 29
        assert fitness.unfit() is None
        clock.now += 2
        assert fitness.unfit() == "partitionlayouts are not listed"
        server.unserved.clear()
        await eventually(listed)
        assert fitness.unfit() is None


async def test_a_leader_that_hears_nothing_of_a_kind_leaves_the_lease_to_others(server: ApiServer) -> None:
    """Small answers arrive, as those about the lease, and large ones do not: it would lead for ever, and see nothing."""
    clock = Clock()
    async with leader(server, clock) as (_, fitness):
        clock.now += 179
        assert fitness.unfit() is None
        clock.now += 2
        assert fitness.unfit() == "not heard of for 180 s: partitionlayouts"
        server.put(LAYOUTS, {"metadata": {"name": "made"}})

        async def unfit() -> str | None:
            return fitness.unfit()

        await eventually(unfit, lambda found: found is None)


async def test_a_leader_that_began_a_moment_ago_has_time_to_hear(server: ApiServer) -> None:
    """Where no replica hears of the kind, none would lead."""
    clock = Clock()
    async with leader(server, clock) as (reflector, _):
        fitness = Fitness([reflector], Parts(), held=lambda: 1.0, age=lambda: 0.0, within=30.0, stuck=60.0)
        clock.now += 3600
        assert fitness.unfit() is None
        assert fitness.unready() == "not heard of for 180 s: partitionlayouts"


async def test_a_leader_without_the_right_to_a_kind_keeps_the_lease(server: ApiServer) -> None:
    """Another replica has no other rights."""
    clock = Clock()
    async with leader(server, clock) as (reflector, fitness):
        server.fault = lambda _: failed(403, "no right")
        server.end_watches()

        async def refused() -> str:
            return reflector.refused

        await eventually(refused)
        clock.now += 3600
        assert fitness.unfit() is None
