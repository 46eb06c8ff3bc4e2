"""Replicas that want to lead, with clocks that the test moves."""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime

from apportion.cluster.client import Client
from apportion.cluster.lease import Lease
from testbed.beside import beside
from testbed.eventually import eventually
from tests.clock import Clock


def lease(
    namespace: str,
    identity: str,
    clock: Clock,
    tries: Counter[str] | None = None,
    ending: Callable[[], None] = lambda: None,
) -> Lease:
    """Return a replica; `tries` counts how often it has looked at the Lease, by its identity."""

    async def soon(_: float) -> None:
        if tries is not None:
            tries[identity] += 1
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


async def has_tried(tries: Counter[str], identity: str, *, more: int = 3) -> None:
    """Wait until a replica has looked at the Lease so many times more."""
    before = tries[identity]

    async def looked() -> bool:
        return tries[identity] >= before + more

    await eventually(looked)
