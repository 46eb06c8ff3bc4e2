"""An API server in memory that has nothing yet, and a client of it: a module takes the fixtures by their names."""

from collections.abc import AsyncIterator

import pytest

from apportion.cluster.client import Client
from tests.cluster.apiserver import ApiServer


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    """Serve in memory."""
    async with ApiServer().serving() as made:
        yield made


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[Client]:
    """Talk to the module's server."""
    async with server.client() as made:
        yield made
