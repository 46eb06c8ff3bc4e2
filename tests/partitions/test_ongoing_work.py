"""No partition waits for the answer about another one, and the partitions of a large group keep no others waiting."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes_asyncio.client import Configuration

from apportion.cluster.client import Client
from apportion.partitions.ongoing import Ongoing
from testbed.beside import beside
from testbed.eventually import eventually
from tests.partitions.manycards import cards, controller
from tests.partitions.onecard import FIRST


class Server:
    """Takes new Partitions, and answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        """The namespaces of those who get them."""
        self.answers: dict[str, asyncio.Event] = {}
        """By namespace: set as soon as it is answered; not there: at once."""

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """Serve, and talk to it."""
        app = web.Application()
        app.router.add_post("/apis/apportion.dev/v1alpha1/partitions", self._create)
        async with TestServer(app) as server:
            settings = Configuration(host=str(server.make_url("")).rstrip("/"))
            async with Client(settings, patience=30.0, manager="apportion-operator") as client:
                yield client

    async def _create(self, request: web.Request) -> web.Response:
        body: dict[str, Any] = orjson.loads(await request.read())
        namespace = body["spec"]["holder"]["namespace"]
        self.asked.append(namespace)
        answer = self.answers.get(namespace)
        if answer is not None:
            await answer.wait()
        metadata = body["metadata"] | {"uid": f"uid-{body['metadata']['name']}", "resourceVersion": "7"}
        return web.json_response(body | {"metadata": metadata})


async def asked(server: Server, namespace: str, times: int = 1) -> None:
    """Wait until so many Partitions were asked for."""

    async def count() -> int:
        return server.asked.count(namespace)

    await eventually(count, lambda found: found >= times, within=10)


@pytest.mark.slow
async def test_a_partition_does_not_wait_for_the_answer_about_another_one() -> None:
    """The API server may take long for one of them."""
    world, server = cards(2), Server()
    server.answers["slow"] = asyncio.Event()
    async with server.client() as client:
        acting = controller(world, client)
        async with beside(acting.run()):
            world.allocate(world.claim("a", namespace="slow"), "n0", FIRST)
            acting.wake()
            await asked(server, "slow")
            world.allocate(world.claim("b", namespace="quick"), "n1", FIRST)
            acting.wake()
            await asked(server, "quick")
            acting.wake()
            await asyncio.sleep(0.1)
            assert server.asked == ["slow", "quick"], "asked for once each"


async def test_the_partitions_of_a_large_group_keep_no_others_waiting() -> None:
    """Those of a namespace are asked for in turn with those of others."""
    world, server = cards(41), Server()
    answer = server.answers["group"] = asyncio.Event()
    async with server.client() as client:
        acting = controller(world, client)
        async with beside(acting.run()):
            for number in range(40):
                world.allocate(world.claim(f"g{number}", namespace="group"), f"n{number}", FIRST)
            acting.wake()
            await asked(server, "group", 24)
            world.allocate(world.claim("single", namespace="other"), "n40", FIRST)
            acting.wake()
            await asked(server, "other")
            assert server.asked.count("group") == 24
            answer.set()
            await asked(server, "group", 40)


async def test_what_was_to_begin_meanwhile_is_looked_at_anew() -> None:
    """And what is broken off is over."""
    woken: list[str] = []
    ongoing = Ongoing(lambda: woken.append("again"))
    begun: list[str] = []
    answer = asyncio.Event()

    async def work() -> None:
        begun.append("work")
        await answer.wait()

    ongoing.begin("a", work)
    await asyncio.sleep(0)
    ongoing.begin("a", work)
    answer.set()
    await ongoing.finished()
    assert (begun, woken) == (["work"], ["again"])

    answer.clear()
    ongoing.begin("a", work)
    await asyncio.sleep(0)
    await ongoing.end()
    ongoing.begin("a", work)
    answer.set()
    await ongoing.finished()
    assert begun == ["work"] * 3
