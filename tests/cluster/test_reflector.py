"""A picture of one kind that no gap can spoil."""

import asyncio

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLASSES, NODES, ResourceKind
from apportion.cluster.reflector import Reflector
from testbed.beside import beside
from testbed.eventually import eventually
from tests.cluster.seen import Seen, a_class


async def test_what_vanished_while_nobody_watched_is_reported(client: Client) -> None:
    """After a list, what was known and is not there any more is told as deleted."""
    seen = Seen()
    reflector = Reflector(client, CLASSES, seen)
    await client.create(CLASSES, a_class("reflected-a"))
    await client.create(CLASSES, a_class("reflected-b"))
    async with beside(reflector.run()):
        await reflector.synced.wait()
        assert await seen.has("reflected-a")
    await client.delete(CLASSES, "reflected-a")
    reflector._progress.version = ""  # as after 410: the gap was too long to go on watching
    async with beside(reflector.run()):

        async def gone() -> bool:
            return not await seen.has("reflected-a") and await seen.has("reflected-b")

        await eventually(gone)
        await client.create(CLASSES, a_class("reflected-c"))
        await eventually(lambda: seen.has("reflected-c"))
        # A deletion that a watch shows has a version of its own, later than that of the object.
        await client.delete(CLASSES, "reflected-c")
        await eventually(lambda: seen.has("reflected-c"), lambda found: not found)
    await client.delete(CLASSES, "reflected-b")


async def test_a_kind_that_the_server_does_not_serve_counts_as_empty_when_that_is_allowed(
    client: Client,
) -> None:
    """DeviceTaintRules v1 came with Kubernetes 1.37."""
    made_up = ResourceKind("resource.k8s.io", "v1", "nosuchthings", "NoSuchThing")
    reflector = Reflector(client, made_up, Seen(), optional=True)
    async with beside(reflector.run()):
        async with asyncio.timeout(60):
            await reflector.synced.wait()
        async with asyncio.timeout(60):
            await reflector.catch_up()


@pytest.mark.parametrize(("few", "expected"), [(-1, False), (-1, True), (500, False)])
async def test_catching_up_ends_when_all_before_it_was_observed(
    client: Client, few: int, *, expected: bool
) -> None:
    """By a bookmark of a real API server for a kind of many objects, of a watch that may be there before; by a list for one of few."""
    seen = Seen()
    reflector = Reflector(client, CLASSES, seen, few=few, proof=60.0)
    async with beside(reflector.run()):
        async with asyncio.timeout(60):
            await reflector.synced.wait()
        if expected:
            reflector.expect()
        await client.create(CLASSES, a_class(f"caught-up-{few}"))
        # The server's version moves by objects of other kinds, too, which the watch does not show.
        await client.create(NODES, {"kind": "Node", "apiVersion": "v1", "metadata": {"name": f"other-{few}"}})
        async with asyncio.timeout(60):
            await reflector.catch_up()
        assert await seen.has(f"caught-up-{few}")
    await client.delete(CLASSES, f"caught-up-{few}")
    await client.delete(NODES, f"other-{few}")
