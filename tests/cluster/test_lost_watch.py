"""Watches that cannot go on where they stopped: a restored etcd, a server that says less than it should."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from aiohttp import web

from apportion.allocator.state import State
from apportion.cluster.kinds import CLAIMS
from apportion.cluster.reflector import Reflector
from apportion.cluster.snapshot import Snapshot
from apportion.dra.allocation import Allocation, DeviceResult
from apportion.dra.device import DeviceId
from testbed.beside import beside
from testbed.eventually import eventually
from tests.cluster.apiserver import ApiServer, Json, failed
from tests.cluster.emptyserver import server

__all__ = ["server"]

CARD = DeviceId("gpu.apportion.dev", "n1", "gpu-0")


def claim(name: str, **labels: str) -> Json:
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    return {"metadata": {"name": name, "namespace": "team", "labels": labels}, "spec": spec}


@asynccontextmanager
async def reflecting(server: ApiServer, *, few: int = 500) -> AsyncIterator[tuple[Reflector, Snapshot]]:
    """Feed a snapshot with claims."""
    snapshot = Snapshot(State(), wake=lambda: None)
    async with server.client() as client:
        reflector = Reflector(client, CLAIMS, snapshot.observe, few=few)
        async with beside(reflector.run()):
            async with asyncio.timeout(60):
                await reflector.synced.wait()
            yield reflector, snapshot


def refuse_next_watch(server: ApiServer, answer: web.Response) -> None:
    """Have the next watch answered with this; later ones work."""
    left = [answer]
    server.fault = lambda request: left.pop() if "watch" in request.query and left else None


def names_of(snapshot: Snapshot) -> set[str]:
    return {found.name for found in snapshot.claims.values()}


async def names(snapshot: Snapshot) -> set[str]:
    return names_of(snapshot)


@pytest.mark.slow
async def test_after_a_restore_of_etcd_the_kind_is_listed(server: ApiServer) -> None:
    """The server's version is below ours, and no watch can start from there."""
    server.put(CLAIMS, claim("old"))
    backup = server.backup()
    async with reflecting(server) as (_, snapshot):
        for _ in range(9):
            server.put(CLAIMS, claim("lost"))
        await eventually(lambda: names(snapshot), lambda found: "lost" in found)
        server.restore(backup)
        await eventually(lambda: names(snapshot), lambda found: found == {"old"})
        server.put(CLAIMS, claim("new"))
        await eventually(lambda: names(snapshot), lambda found: found == {"old", "new"})


@pytest.mark.slow
async def test_what_a_restore_brought_back_replaces_what_was_newer(server: ApiServer) -> None:
    """Also an object that had been deleted since: after a restore a UID comes back."""
    server.put(CLAIMS, claim("changed", state="old"))
    server.put(CLAIMS, claim("deleted"))
    backup = server.backup()
    async with reflecting(server) as (_, snapshot):
        server.put(CLAIMS, claim("changed", state="new"))
        server.drop(CLAIMS, "deleted", "team")
        await eventually(lambda: names(snapshot), lambda found: found == {"changed"})
        server.restore(backup)
        await eventually(lambda: names(snapshot), lambda found: found == {"changed", "deleted"})
        found = snapshot.claim("team", "changed")
        assert found is not None
        assert found.version == server.get(CLAIMS, "changed", "team")["metadata"]["resourceVersion"]


@pytest.mark.slow
async def test_a_restore_does_not_free_what_is_being_written(server: ApiServer) -> None:
    """Whether the write came before or after the restore is unknown until the claim is seen with it, or changed."""
    server.put(CLAIMS, claim("old"))
    backup = server.backup()
    async with reflecting(server) as (_, snapshot):
        server.put(CLAIMS, claim("old", state="new"))
        server.put(CLAIMS, claim("lost"))
        await eventually(lambda: names(snapshot), lambda found: "lost" in found)
        found = snapshot.claim("team", "old")
        assert found is not None
        snapshot.assume(found, Allocation((DeviceResult("r", CARD),)))
        server.restore(backup)
        await eventually(lambda: names(snapshot), lambda found: found == {"old"})
        assert snapshot.state.holders(CARD) == (found.uid,)


@pytest.mark.slow
async def test_a_restore_frees_what_depended_on_a_version_that_is_lost(server: ApiServer) -> None:
    """The answer was lost with the server: no later version would ever settle it, where versions went back."""
    server.put(CLAIMS, claim("waits"))
    backup = server.backup()
    async with reflecting(server) as (_, snapshot):
        server.put(CLAIMS, claim("waits", state="protected"))
        sent = server.get(CLAIMS, "waits", "team")["metadata"]["resourceVersion"]
        await eventually(lambda: version(snapshot, "waits"), lambda found: found == sent)
        found = snapshot.claim("team", "waits")
        assert found is not None
        assert snapshot.sent(snapshot.assume(found, Allocation((DeviceResult("r", CARD),))), sent)
        assert snapshot.state.holders(CARD) == (found.uid,)
        server.restore(backup)
        await eventually(lambda: version(snapshot, "waits"), lambda now: now < sent)
        assert snapshot.state.holders(CARD) == ()
        assert len(snapshot.assumed) == 0


@pytest.mark.parametrize("changed", [False, True], ids=["as it was", "changed by another client since"])
async def test_an_object_that_was_gone_comes_back_where_versions_were_raised(
    server: ApiServer, *, changed: bool
) -> None:
    """No other object differs. What nobody knows and is older than all that was observed is of another history.

    Another client may have been faster after the restore: all that this one sees is newer than what it knew.
    """
    server.put(CLAIMS, claim("stays"))
    server.put(CLAIMS, claim("deleted"))
    backup = server.backup()
    async with reflecting(server) as (_, snapshot):
        server.drop(CLAIMS, "deleted", "team")
        await eventually(lambda: names(snapshot), lambda found: found == {"stays"})
        refuse_next_watch(server, failed(410, "too old resource version"))
        server.restore((backup[0] + 10_000, backup[1]))
        if changed:
            server.put(CLAIMS, claim("deleted", state="new"))
        await eventually(lambda: names(snapshot), lambda found: found == {"stays", "deleted"})


@pytest.mark.slow
@pytest.mark.parametrize("few", [0, 500])
async def test_after_a_broken_connection_no_watch_goes_on_from_a_version_that_was_lost(
    server: ApiServer, few: int
) -> None:
    """A server accepts such a watch and says nothing; who waits for it would never hear of what has vanished."""
    server.put(CLAIMS, claim("old"))
    backup = server.backup()
    async with reflecting(server, few=few) as (_, snapshot):
        for number in range(5):
            server.put(CLAIMS, claim(f"lost-{number}"))
        await eventually(lambda: names(snapshot), lambda found: "lost-4" in found)
        refuse_next_watch(server, failed(503, "away"))
        server.restore(backup)
        await eventually(lambda: names(snapshot), lambda found: found == {"old"})


async def test_a_few_objects_are_listed_after_a_broken_connection(server: ApiServer) -> None:
    """The new history may have got as far as the old one."""
    server.put(CLAIMS, claim("old"))
    backup = server.backup()
    async with reflecting(server) as (_, snapshot):
        server.put(CLAIMS, claim("lost"))
        await eventually(lambda: names(snapshot), lambda found: "lost" in found)
        refuse_next_watch(server, failed(503, "away"))
        server.restore(backup)
        for _ in range(9):
            server.put(CLAIMS, claim("new"))
        await eventually(lambda: names(snapshot), lambda found: found == {"old", "new"})


@pytest.mark.slow
async def test_a_restore_that_raised_the_version_is_noticed_by_its_objects(server: ApiServer) -> None:
    """`etcdutl snapshot restore --bump-revision`: the watch is too old (410), and objects are older than they were."""
    server.put(CLAIMS, claim("changed"))
    backup = server.backup()
    async with reflecting(server) as (_, snapshot):
        server.put(CLAIMS, claim("changed"))
        newer = server.get(CLAIMS, "changed", "team")["metadata"]["resourceVersion"]
        await eventually(lambda: version(snapshot, "changed"), lambda found: found == newer)
        refuse_next_watch(server, failed(410, "too old resource version"))
        server.restore((backup[0] + 10_000, backup[1]))
        older = server.get(CLAIMS, "changed", "team")["metadata"]["resourceVersion"]
        await eventually(lambda: version(snapshot, "changed"), lambda found: found == older)


async def version(snapshot: Snapshot, name: str) -> str:
    found = snapshot.claim("team", name)
    return found.version if found is not None else ""


@pytest.mark.slow
async def test_one_old_list_is_not_believed(server: ApiServer) -> None:
    """A server behind the others must not take back what was observed: devices would be free that are in use."""
    server.put(CLAIMS, claim("one"))
    async with reflecting(server) as (_, snapshot):
        server.put(CLAIMS, claim("two"))
        await eventually(lambda: names(snapshot), lambda found: found == {"one", "two"})
        stale = [web.json_response({"metadata": {"resourceVersion": "50"}, "items": []})]
        seen: list[set[str]] = []

        def fault(request: web.Request) -> web.Response | None:
            seen.append(names_of(snapshot))
            if "watch" in request.query:
                return failed(410, "too old") if stale else None
            return stale.pop() if stale else None

        server.fault = fault
        server.end_watches()
        server.put(CLAIMS, claim("three"))
        await eventually(lambda: names(snapshot), lambda found: "three" in found)
        assert not stale
        assert all(each >= {"one", "two"} for each in seen)


async def test_events_from_before_the_watch_are_no_changes(server: ApiServer) -> None:
    """A server may send them once more: the devices of a claim that is gone would be taken for ever."""
    created = server.put(CLAIMS, claim("gone"))
    server.drop(CLAIMS, "gone", "team")
    server.put(CLAIMS, claim("there"))
    server.replayed.append(("ADDED", created))
    async with reflecting(server) as (_, snapshot):
        server.put(CLAIMS, claim("new"))
        await eventually(lambda: names(snapshot), lambda found: "new" in found)
        assert not server.replayed
        assert names_of(snapshot) == {"there", "new"}
        server.drop(CLAIMS, "there", "team")
        await eventually(lambda: names(snapshot), lambda found: found == {"new"})


@pytest.mark.slow
async def test_a_server_that_asks_to_come_back_later_is_asked_later(server: ApiServer) -> None:
    """Nor is a busy server asked for a list, which costs it more than the watch that it refused."""
    asked: list[float] = []

    def busy(request: web.Request) -> web.Response | None:
        if "watch" not in request.query:
            return None
        asked.append(time.monotonic())
        return failed(429, "later", {"Retry-After": "1"}) if len(asked) < 5 else None

    server.fault = busy
    async with reflecting(server) as (_, snapshot):
        server.put(CLAIMS, claim("new"))
        await eventually(lambda: names(snapshot), lambda found: found == {"new"})
    assert all(later - sooner >= 1 for sooner, later in pairwise(asked))
    assert sum("watch" not in request for _, request in server.requests) == 1


@pytest.mark.slow
async def test_a_replica_has_not_caught_up_with_a_history_that_it_has_not_seen(server: ApiServer) -> None:
    """Etcd was restored while its watch hung: what it observed is newer than all that there is."""
    server.put(CLAIMS, claim("old"))
    backup = server.backup()
    async with reflecting(server) as (reflector, snapshot):
        server.put(CLAIMS, claim("lost"))
        await eventually(lambda: names(snapshot), lambda found: "lost" in found)
        await server.hang(CLAIMS)
        server.restore(backup, watches_end=False)
        async with asyncio.timeout(60):
            await reflector.catch_up()
        assert names_of(snapshot) == {"old"}
