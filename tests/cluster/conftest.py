"""A client of the real control plane."""

from collections.abc import AsyncIterator

import pytest

from apportion.cluster.client import Client, connect
from testbed.controlplane import ControlPlane


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    """Talk to the API server as administrator."""
    async with await connect(control_plane.kubeconfig, manager="apportion-test") as made:
        yield made
