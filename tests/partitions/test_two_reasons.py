"""Partitions that two reasons remove: they are asked for once a look, also where the server refuses."""

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes_asyncio.client import Configuration

from apportion.cluster.client import Client
from apportion.cluster.kinds import NODES
from apportion.partitions import controller as partitioncontroller
from testbed.beside import beside
from testbed.eventually import eventually
from tests.partitions.manycards import controller
from tests.partitions.test_leaving_partitions import cut, layout_of


async def test_a_refused_deletion_is_asked_for_once_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its layout is gone, and its node for longer than a minute; the server answers with 500 as long as a webhook is down."""
    # Looks without a reason would come beside those that are counted, more of them on a slower machine.
    monkeypatch.setattr(partitioncontroller, "_IDLE", 600.0)
    world, asked = cut(), 0
    world.gone(*layout_of(world))
    world.gone(NODES, world.seen[NODES, "", "n1"])

    async def refuse(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return web.json_response({"kind": "Status", "metadata": {}}, status=500)

    async def is_asked() -> int:
        return asked

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", refuse)
    async with TestServer(app) as server:
        settings = Configuration(host=str(server.make_url("")).rstrip("/"))
        async with Client(settings, patience=30.0, manager="apportion-operator") as client:
            acting = controller(world, client)
            async with beside(acting.run()):
                acting.wake()
                await eventually(is_asked)
                world.clock.now += 61
                acting.wake()
                await asyncio.sleep(0.3)
    assert 0 < asked < 5
