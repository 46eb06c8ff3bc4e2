"""A client of a server that does not answer, for passes that need nobody's answer."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from kubernetes_asyncio.client import Configuration

from apportion.cluster.client import Client


@pytest.fixture
async def unanswered() -> AsyncIterator[Client]:
    """Talk to nobody: what is written fails after the pass that decided it."""
    settings = Configuration(host="http://127.0.0.1:1")  # reserved, nothing listens there
    before = asyncio.all_tasks()
    async with Client(settings, patience=1.0, manager="apportion-operator") as made:
        yield made
        # Each write that was begun fails by itself: one that met a closed connection would be logged with its traceback.
        await asyncio.gather(
            *(asyncio.all_tasks() - before - {asyncio.current_task()}), return_exceptions=True
        )
