"""Objects that came and went while nobody watched: a list does not show them, and who knows of them has to forget them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from apportion.allocator.state import State
from apportion.cluster.kinds import CLASSES, ResourceKind
from apportion.cluster.reflector import Reflector
from apportion.cluster.snapshot import Snapshot
from testbed.beside import beside
from testbed.eventually import eventually
from tests.cluster.apiserver import ApiServer, Json, failed
from tests.cluster.emptyserver import server

__all__ = ["server"]


@asynccontextmanager
async def reflecting(server: ApiServer, kind: ResourceKind, *, page: int = 500) -> AsyncIterator[Snapshot]:
    """Feed a snapshot with objects of a kind, as the operator does."""
    snapshot = Snapshot(State(), wake=lambda: None)
    async with server.client() as client:
        reflector = Reflector(client, kind, snapshot.observe, answered=snapshot.answered, page=page)
        async with beside(reflector.run()):
            async with asyncio.timeout(60):
                await reflector.synced.wait()
            yield snapshot


def a_class(name: str, uid: str = "") -> Json:
    metadata = {"name": name, "uid": uid, "labels": {"apportion.dev/managed": "true"}}
    return {"metadata": metadata, "spec": {"selectors": []}}


async def known(snapshot: Snapshot) -> set[str]:
    return {each.name for each in snapshot.classes.values()}


async def test_what_we_made_and_somebody_deleted_before_any_list_showed_it_is_forgotten(
    server: ApiServer,
) -> None:
    """Its watch was interrupted for so long: it would be there for ever, and be asked for what it cannot give."""
    async with reflecting(server, CLASSES) as snapshot:
        await server.hang(CLASSES)
        snapshot.observe(CLASSES, "MODIFIED", server.put(CLASSES, a_class("made")))
        assert await known(snapshot) == {"made"}
        server.drop(CLASSES, "made")
        server.put(CLASSES, a_class("there"))
        server.end_watches()
        await eventually(lambda: known(snapshot), lambda found: found == {"there"})
        assert snapshot.state.classes.keys() == {"there"}


async def test_an_answer_that_comes_after_the_list_that_shows_its_object_no_more_is_forgotten(
    server: ApiServer,
) -> None:
    """At the next event of the kind, or the bookmark that comes once a minute."""
    made = server.put(CLASSES, a_class("made"))
    server.drop(CLASSES, "made")
    async with reflecting(server, CLASSES) as snapshot:
        snapshot.observe(CLASSES, "MODIFIED", made)
        server.put(CLASSES, a_class("there"))
        await eventually(lambda: known(snapshot), lambda found: found == {"there"})


@pytest.mark.slow
async def test_what_we_made_before_a_restore_of_etcd_is_forgotten(server: ApiServer) -> None:
    """Its version is later than any that there is for a long time."""
    server.put(CLASSES, a_class("there"))
    backup = server.backup()
    async with reflecting(server, CLASSES) as snapshot:
        for _ in range(9):
            server.put(CLASSES, a_class("lost"))
        await eventually(lambda: known(snapshot), lambda found: "lost" in found)
        await server.hang(CLASSES)
        snapshot.observe(CLASSES, "MODIFIED", server.put(CLASSES, a_class("made")))
        server.restore(backup)
        await eventually(lambda: known(snapshot), lambda found: found == {"there"})


async def test_what_we_made_stays_until_the_watch_shows_it_and_later(server: ApiServer) -> None:
    """Events of objects that were made before it come first."""
    async with reflecting(server, CLASSES) as snapshot:
        await server.hang(CLASSES)
        server.put(CLASSES, a_class("before"))
        snapshot.observe(CLASSES, "MODIFIED", server.put(CLASSES, a_class("made")))
        server.put(CLASSES, a_class("after"))
        seen: list[set[str]] = []
        snapshot._wake = lambda: seen.append({each.name for each in snapshot.classes.values()})
        server.end_watches()
        await eventually(lambda: known(snapshot), lambda found: found == {"before", "made", "after"})
        assert all("made" in each for each in seen)
        server.drop(CLASSES, "made")
        await eventually(lambda: known(snapshot), lambda found: found == {"before", "after"})


async def test_a_namesake_that_came_between_two_tries_of_the_first_list_stays(server: ApiServer) -> None:
    """The second page was not answered; by then the first one had been reported, and its object was made anew."""
    server.put(CLASSES, a_class("a", "first"))
    server.put(CLASSES, a_class("b", "other"))

    def fault(request: web.Request) -> web.Response | None:
        if "continue" not in request.query:
            return None
        server.fault = lambda _: None
        server.drop(CLASSES, "a")
        server.put(CLASSES, a_class("a", "second"))
        return failed(500, "no leader")

    server.fault = fault
    async with reflecting(server, CLASSES, page=1) as snapshot:
        assert {each.name: each.uid for each in snapshot.classes.values()} == {"a": "second", "b": "other"}
        assert {name: each.uid for name, each in snapshot.state.classes.items()} == {
            "a": "second",
            "b": "other",
        }


async def test_a_class_that_was_made_anew_before_a_list_showed_the_one_that_we_made_stays(
    server: ApiServer,
) -> None:
    """A layout's class, as the answer to our write has shown it; `kubectl replace --force` while its watch was interrupted."""
    async with reflecting(server, CLASSES) as snapshot:
        await server.hang(CLASSES)
        snapshot.observe(CLASSES, "MODIFIED", server.put(CLASSES, a_class("made", "ours")))
        server.drop(CLASSES, "made")
        server.put(CLASSES, a_class("made", "theirs"))
        server.end_watches()

        async def uids() -> set[str]:
            return {each.uid for each in snapshot.classes.values()}

        await eventually(uids, lambda found: found == {"theirs"})
        assert "made" in snapshot.managed.policies
        assert {name: each.uid for name, each in snapshot.state.classes.items()} == {"made": "theirs"}
