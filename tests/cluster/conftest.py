"""A client of the real control plane, and an API server in memory with two devices."""

from collections.abc import AsyncIterator

import pytest

from apportion.cluster.client import Client, connect
from testbed.controlplane import ControlPlane
from tests.cluster.apiserver import ApiServer
from tests.cluster.replica import two_devices


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    """Talk to the API server as administrator."""
    async with await connect(control_plane.kubeconfig, manager="apportion-test") as made:
        yield made


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    """Serve two devices."""
    async with ApiServer().serving() as made:
        two_devices(made)
        yield made
