"""A recorder that writes, and the Events that it wrote."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from apportion.cluster.client import Client, Object
from apportion.cluster.eventqueue import MOST_WAITING
from apportion.cluster.kinds import EVENTS
from apportion.cluster.recorder import Recorder
from testbed.beside import beside
from tests.clock import Clock


@asynccontextmanager
async def recorder(
    client: Client, clock: Clock, *, most_waiting: int = MOST_WAITING
) -> AsyncIterator[Recorder]:
    made = Recorder(
        client, component="test", clock=clock, now=lambda: datetime.now(UTC), most_waiting=most_waiting
    )
    async with beside(made.run()):
        yield made


async def texts(client: Client, namespace: str) -> dict[str, int]:
    answer = await client.list(EVENTS, namespace=namespace)
    events: list[Object] = answer["items"]
    return {event["message"]: event["count"] for event in events}
