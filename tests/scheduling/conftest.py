"""A client of the real control plane, and what writes through it."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from apportion.cluster.client import Client, connect
from apportion.scheduling.writing.writer import Writer
from testbed.controlplane import ControlPlane
from tests.clients import silent, unanswered
from tests.scheduling.allocating import Allocating, made_on

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


@pytest.fixture
def patience() -> float:
    """Say after how many seconds the operator's client gives up: longer than a busy machine takes for any answer."""
    return 30.0


@pytest.fixture
async def allocating(
    client: Client, control_plane: ControlPlane, namespace: str, tmp_path: Path, patience: float
) -> AsyncIterator[Allocating]:
    """Have a claim on the server, and the operator's side of it behind a faulty proxy."""
    async with made_on(client, control_plane.kubeconfig, namespace, tmp_path, patience=patience) as made:
        yield made
