"""A client of the real control plane, and what writes through it."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from apportion.cluster.client import Client, connect
from apportion.scheduling.writer import Writer
from testbed.controlplane import ControlPlane
from tests.clients import silent, unanswered

__all__ = ["silent", "unanswered"]


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    """Talk to the API server as administrator."""
    async with await connect(control_plane.kubeconfig, manager="apportion-operator") as made:
        yield made


@pytest.fixture
def writer(client: Client) -> Writer:
    """Write without a lease, at a fixed time."""
    return Writer(client, fence=lambda: None, now=lambda: datetime(2026, 1, 2, tzinfo=UTC))
