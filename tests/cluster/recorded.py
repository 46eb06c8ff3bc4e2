"""A recorder that writes, and the Events that it wrote."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

from apportion.cluster.client import Client, Object
from apportion.cluster.kinds import EVENTS
from apportion.cluster.recorder import Recorder
from tests.clock import Clock


@asynccontextmanager
async def recorder(client: Client, clock: Clock) -> AsyncIterator[Recorder]:
    made = Recorder(client, component="test", clock=clock, now=lambda: datetime.now(UTC))
    task = asyncio.ensure_future(made.run())
    yield made
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def texts(client: Client, namespace: str) -> dict[str, int]:
    answer = await client.list(EVENTS, namespace=namespace)
    events: list[Object] = answer["items"]
    return {event["message"]: event["count"] for event in events}
