"""A server that does not let us read a kind."""

import asyncio

import pytest
from aiohttp import web
from kubernetes_asyncio.client import Configuration
from structlog.testing import capture_logs

from apportion.cluster.client import Client
from apportion.cluster.kinds import STORAGE_CLASSES, TAINT_RULES, VOLUME_CLAIMS, VOLUMES, ResourceKind
from apportion.cluster.reflector import Reflector
from testbed.beside import beside
from testbed.eventually import eventually
from tests.cluster.apiserver import ApiServer, failed
from tests.cluster.replica import replica, two_devices
from tests.cluster.seen import Seen


async def refuse(_request: web.Request) -> web.Response:
    return web.json_response({"kind": "Status", "message": "forbidden", "code": 403}, status=403)


async def test_a_kind_that_may_not_be_read_is_said_once_and_done_without() -> None:
    """Only where the operator can do without it: volumes. `catch_up` does not wait for it."""
    application = web.Application()
    application.router.add_get("/{path:.*}", refuse)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        async with Client(
            Configuration(host=f"http://{host}:{port}"), patience=5.0, manager="test"
        ) as client:
            reflector = Reflector(client, VOLUMES, Seen(), optional=True)
            with capture_logs() as logs:
                observing = asyncio.ensure_future(reflector.run())
                async with asyncio.timeout(60):
                    await reflector.synced.wait()
                async with asyncio.timeout(60):
                    await reflector.catch_up()
                observing.cancel()
    finally:
        await runner.cleanup()
    assert [line["event"] for line in logs] == ["reflector.refused"]
    assert reflector.synced.is_set()
    assert not reflector.listed


@pytest.mark.parametrize("status", [403, 404])
async def test_who_catches_up_does_not_wait_for_the_next_time_the_kind_is_asked_for(status: int) -> None:
    """A server that has just started knows no roles and serves no CRDs for a moment; a leader acts only after all kinds are caught up with."""
    async with ApiServer().serving() as server, server.client() as client:
        server.fault = lambda _: failed(status, "not yet")
        reflector = Reflector(client, TAINT_RULES, Seen(), optional=True)
        async with beside(reflector.run()):
            async with asyncio.timeout(60):
                await reflector.synced.wait()
            server.fault = lambda _: None
            # By itself it asks again after ten seconds.
            async with asyncio.timeout(8):
                await reflector.catch_up()
            assert reflector.listed


@pytest.mark.slow
@pytest.mark.parametrize("status", [403, 404])
async def test_a_kind_that_is_taken_away_while_it_is_watched_counts_as_empty(status: int) -> None:
    """What was last seen of it stayed true for as long as the operator ran."""
    async with ApiServer().serving() as server, server.client() as client:
        server.put(TAINT_RULES, {"metadata": {"name": "rule"}})
        noted: list[bool] = []
        reflector = Reflector(
            client,
            TAINT_RULES,
            seen := Seen(),
            optional=True,
            missed=0.0,
            noted=lambda: noted.append(reflector.listed),
        )
        async with beside(reflector.run()):
            await eventually(lambda: seen.has("rule"))
            server.fault = lambda _: failed(status, "no longer")
            server.end_watches()
            await eventually(lambda: seen.has("rule"), lambda found: not found)
            assert reflector.synced.is_set()
            server.fault = lambda _: None
            await reflector.catch_up()
            assert await seen.has("rule")
        assert noted == [True, False, True]


@pytest.mark.slow
@pytest.mark.parametrize("status", [403, 404])
async def test_a_kind_that_is_away_for_a_moment_is_as_it_was(status: int) -> None:
    """A server that starts serves no CRDs, and a role is being updated."""
    async with ApiServer().serving() as server, server.client() as client:
        server.put(TAINT_RULES, {"metadata": {"name": "rule"}})
        reflector = Reflector(client, TAINT_RULES, seen := Seen(), optional=True)
        async with beside(reflector.run()):
            await eventually(lambda: seen.has("rule"))
            server.fault = lambda _: failed(status, "not yet")
            server.requests.clear()
            server.end_watches()

            async def is_refused() -> bool:
                return bool(server.requests)

            await eventually(is_refused)
            await asyncio.sleep(0.2)
            assert await seen.has("rule")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [VOLUME_CLAIMS, VOLUMES, STORAGE_CLASSES], ids=lambda kind: kind.plural)
async def test_a_leader_does_without_volumes_once_it_may_not_read_them(kind: ResourceKind) -> None:
    """As one that never might: pods were placed by what volumes had been before."""
    async with ApiServer().serving() as server:
        two_devices(server)
        server.put(kind, {"metadata": {"name": "v", "namespace": "team"}})
        async with replica(server) as app:

            async def complete() -> bool:
                return app.snapshot.volumes.complete

            await eventually(complete)
            for reflector in app._volumes:
                reflector._missed = 0.0
            server.fault = lambda request: (
                failed(403, "forbidden")
                if kind.plural in request.path and "watch" not in request.query
                else None
            )

            async def is_done_without() -> bool:
                server.end_watches()
                return not app.snapshot.volumes.complete

            await eventually(is_done_without)
            assert app.fitness.unready() is None
