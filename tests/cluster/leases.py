"""Replicas that want to lead, with clocks that the test moves."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime

from apportion.cluster.client import Client
from apportion.cluster.lease import Lease
from testbed.beside import beside
from tests.clock import Clock


def lease(namespace: str, identity: str, clock: Clock, ending: Callable[[], None] = lambda: None) -> Lease:
    async def soon(_: float) -> None:
        await asyncio.sleep(0.05)

    return Lease(
        namespace=namespace,
        name="test",
        identity=identity,
        clock=clock,
        now=lambda: datetime.now(UTC),
        sleep=soon,
        ending=ending,
    )


def running(one: Lease, client: Client) -> AbstractAsyncContextManager[None]:
    return beside(one.run(client))


async def leads(one: Lease) -> bool:
    return one.remaining() > 0
