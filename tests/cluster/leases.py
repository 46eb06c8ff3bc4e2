"""Replicas that want to lead, with clocks that the test moves."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

from apportion.cluster.client import Client
from apportion.cluster.lease import Lease
from tests.clock import Clock


def lease(namespace: str, identity: str, clock: Clock) -> Lease:
    async def soon(_: float) -> None:
        await asyncio.sleep(0.05)

    return Lease(
        namespace=namespace,
        name="test",
        identity=identity,
        clock=clock,
        now=lambda: datetime.now(UTC),
        sleep=soon,
    )


@asynccontextmanager
async def running(one: Lease, client: Client) -> AsyncIterator[None]:
    task = asyncio.ensure_future(one.run(client))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def leads(one: Lease) -> bool:
    return one.remaining() > 0
