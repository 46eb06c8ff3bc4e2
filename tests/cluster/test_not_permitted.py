"""A server that does not let us read a kind."""

import asyncio
import time

import pytest
from aiohttp import web
from kubernetes_asyncio.client import Configuration
from structlog.testing import capture_logs

from apportion.cluster.client import Client
from apportion.cluster.kinds import TAINT_RULES, VOLUMES
from apportion.cluster.reflector import Reflector
from testbed.beside import beside
from tests.cluster.apiserver import ApiServer, failed
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
                async with asyncio.timeout(5):
                    await reflector.synced.wait()
                async with asyncio.timeout(5):
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
            async with asyncio.timeout(5):
                await reflector.synced.wait()
            server.fault = lambda _: None
            began = time.monotonic()
            async with asyncio.timeout(30):
                await reflector.catch_up()
            assert reflector.listed
            assert time.monotonic() - began < 2
