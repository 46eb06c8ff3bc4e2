"""A picture of one kind that no gap can spoil."""

import asyncio
from contextlib import suppress

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLASSES, ResourceKind
from apportion.cluster.reflector import Reflector
from testbed.eventually import eventually
from tests.cluster.seen import Seen, a_class


async def test_what_vanished_while_nobody_watched_is_reported(client: Client) -> None:
    """After a list, what was known and is not there any more is told as deleted."""
    seen = Seen()
    reflector = Reflector(client, CLASSES, seen)
    await client.create(CLASSES, a_class("reflected-a"))
    await client.create(CLASSES, a_class("reflected-b"))
    task = asyncio.ensure_future(reflector.run())
    await reflector.synced.wait()
    assert await seen.has("reflected-a")
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    await client.delete(CLASSES, "reflected-a")
    reflector._version = ""  # as after 410: the gap was too long to go on watching
    task = asyncio.ensure_future(reflector.run())
    try:

        async def gone() -> bool:
            return not await seen.has("reflected-a") and await seen.has("reflected-b")

        await eventually(gone)
        await client.create(CLASSES, a_class("reflected-c"))
        await eventually(lambda: seen.has("reflected-c"))
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        for name in ("reflected-b", "reflected-c"):
            await client.delete(CLASSES, name)


async def test_a_kind_that_the_server_does_not_serve_counts_as_empty_when_that_is_allowed(
    client: Client,
) -> None:
    """DeviceTaintRules v1 came with Kubernetes 1.37."""
    made_up = ResourceKind("resource.k8s.io", "v1", "nosuchthings", "NoSuchThing")
    reflector = Reflector(client, made_up, Seen(), optional=True)
    await asyncio.wait_for(reflector.run(), 10)
    assert reflector.synced.is_set()
