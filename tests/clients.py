"""Clients of servers that do not answer, for passes that need nobody's answer."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from kubernetes_asyncio.client import Configuration

from apportion.cluster.client import Client


@pytest.fixture
async def unanswered(authority: str) -> AsyncIterator[Client]:
    """Talk to nobody: what is written fails after the pass that decided it."""
    settings = Configuration(
        host="http://127.0.0.1:1", ssl_ca_cert=authority
    )  # reserved, nothing listens there
    before = asyncio.all_tasks()
    async with Client(settings, patience=1.0, manager="apportion-operator") as made:
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
