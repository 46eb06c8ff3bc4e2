"""Clients of servers that do not answer, for passes that need nobody's answer."""

import asyncio
import contextlib
import errno
from collections.abc import AsyncIterator

import aiohttp
import pytest
from kubernetes_asyncio.client import Configuration

from apportion.cluster.client import Client

_TURNS = 3


class _NobodyListens(aiohttp.BaseConnector):
    """Refuses each connection after so many turns of the loop as the kernel of an idle machine does: on a busy one they are more, and a write fails in another pass."""

    async def connect(
        self, req: aiohttp.ClientRequest, *_: object, **__: object
    ) -> aiohttp.connector.Connection:
        for _turn in range(_TURNS):
            await asyncio.sleep(0)
        raise aiohttp.ClientConnectorError(
            req.connection_key, ConnectionRefusedError(errno.ECONNREFUSED, "refused")
        )


@pytest.fixture
async def unanswered(authority: str) -> AsyncIterator[Client]:
    """Talk to nobody: what is written fails after the pass that decided it."""
    settings = Configuration(host="http://127.0.0.1:1", ssl_ca_cert=authority)
    before = asyncio.all_tasks()
    async with Client(settings, patience=60.0, manager="apportion-operator") as made:
        await made._session.close()
        made._session = aiohttp.ClientSession(connector=_NobodyListens())
        yield made
        # Each write that was begun fails by itself: one that met a closed connection would be logged with its traceback.
        await asyncio.gather(
            *(asyncio.all_tasks() - before - {asyncio.current_task()}), return_exceptions=True
        )


@pytest.fixture
async def silent(authority: str) -> AsyncIterator[Client]:
    """Talk to somebody who listens and never answers: what is written stays under way."""

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            await reader.read()

    before = asyncio.all_tasks()
    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    settings = Configuration(host=f"http://{host}:{port}", ssl_ca_cert=authority)
    async with Client(settings, patience=60.0, manager="apportion-operator") as made:
        yield made
        server.close()
        # Before the connection is closed: each write that meets it closed would be logged with its traceback.
        left = asyncio.all_tasks() - before - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
