"""A layout that is deleted and made anew under its name: what the former one had is the new one's, and nothing is asked for again and again."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes_asyncio.client import Configuration

from apportion.api.layout import PartitionLayout
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLASSES, LAYOUTS, PARTITIONS, ResourceKind
from testbed.beside import beside
from testbed.eventually import eventually
from tests.observedcluster import Json, ObservedCluster, request
from tests.partitions.layoutworld import plan
from tests.partitions.manycards import controller
from tests.partitions.test_leaving_partitions import OTHER, STATIC, cut, layout_of, partition

NAME = f"n1-{STATIC.name}"
CLASS = "l-1g-10gb"


class Server:
    """Has the world's objects: changes them when it is asked to, and says that a name is taken. A deletion begins, and ends never."""

    def __init__(self, world: ObservedCluster) -> None:
        self._world = world
        self.asked: list[tuple[str, str]] = []
        """Method and path of each request."""

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """Serve, and talk to it."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        async with TestServer(app) as server:
            settings = Configuration(host=str(server.make_url("")).rstrip("/"))
            async with Client(settings, patience=30.0, manager="apportion-operator") as client:
                yield client

    def of(self, kind: ResourceKind) -> list[str]:
        """Return the methods of the requests about objects of a kind."""
        return [method for method, path in self.asked if f"/{kind.plural}" in path]

    async def _answer(self, asked: web.Request) -> web.Response:
        self.asked.append((asked.method, asked.path))
        plural, name = asked.path.removesuffix("/status").split("/")[-2:]
        found = next(
            (raw for (kind, _, own), raw in self._world.seen.items() if (kind.plural, own) == (plural, name)),
            None,
        )
        if asked.method != "PATCH" or found is None:
            status = 409 if asked.method == "POST" else 200
            return web.json_response({"kind": "Status", "metadata": {}, "code": status}, status=status)
        change = orjson.loads(await asked.read())
        metadata = found["metadata"] | change.pop("metadata")
        self._world.version += 1
        made = found | {key: found.get(key, {}) | value for key, value in change.items()}
        made["metadata"] = metadata | {"resourceVersion": str(self._world.version)}
        return web.json_response(made)


def remade(world: ObservedCluster, *partitions: Json) -> PartitionLayout:
    """Show that the layout went, and that one of its name came; unless partitions say otherwise, with the same ones."""
    kind, raw = layout_of(world)
    world.gone(kind, raw)
    spec = raw["spec"] | ({"partitions": [*partitions]} if partitions else {})
    world.see(LAYOUTS, {"metadata": {"name": "l", "uid": "anew", "generation": 1}, "spec": spec})
    return world.snapshot.layouts["anew"]


@pytest.mark.parametrize("used", [True, False])
async def test_a_layout_that_is_made_anew_takes_over_what_is_cut(*, used: bool) -> None:
    """It was deleted, or asked for in vain while a claim had it, and each answer led to the next request at once."""
    world = cut()
    if used:
        world.allocate(world.claim("a", request("gpu")), "n1", STATIC.name)
    remade(world)
    server = Server(world)

    async def taken_over() -> bool:
        return any(
            found.spec.holder is not None and found.spec.holder.uid == "anew"
            for found in world.snapshot.partitions.values()
        )

    async with server.client() as client:
        acting = controller(world, client)
        async with beside(acting.run()):
            acting.wake()
            acting.reserve()
            await eventually(taken_over)
            for _ in range(5):
                acting.wake()
                acting.reserve()
                await asyncio.sleep(0.05)
    assert server.of(PARTITIONS) == ["PATCH"]
    assert await taken_over()
    assert not plan(world).unready


async def test_a_layout_of_another_name_gets_the_places_of_one_that_is_gone() -> None:
    """It was renamed. An object is named after its device: the former one's goes first, or both would be asked for by turns for ever."""
    world = cut()
    kind, raw = layout_of(world)
    world.gone(kind, raw)
    world.see(LAYOUTS, {"metadata": {"name": "m", "uid": "m", "generation": 1}, "spec": raw["spec"]})
    server = Server(world)
    async with server.client() as client:
        acting = controller(world, client)
        acting.reserve()
        await acting.act()
        assert server.of(PARTITIONS) == ["DELETE"]
        former = next(raw for (kind, _, _), raw in world.seen.items() if kind == PARTITIONS)
        world.gone(PARTITIONS, former)
        acting.reserve()
        await acting.act()
    assert server.of(PARTITIONS) == ["DELETE", "POST"]


async def test_what_a_layout_that_is_made_anew_has_no_place_for_is_deleted_once() -> None:
    """By one request, until a watch shows it."""
    world = cut()
    remade(world, OTHER)
    server = Server(world)
    async with server.client() as client:
        acting = controller(world, client)
        acting.reserve()
        await acting.act()
    deleted = [path for method, path in server.asked if method == "DELETE"]
    assert [path.rsplit("/", 1)[-1] for path in deleted] == [NAME]


async def test_a_partition_that_is_being_deleted_is_not_taken_over() -> None:
    """It is made anew when it has gone; until then nothing is asked for."""
    world = cut()
    metadata = partition(world)["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:01Z"}
    world.see(PARTITIONS, partition(world) | {"metadata": metadata})
    remade(world)
    server = Server(world)
    async with server.client() as client:
        acting = controller(world, client)
        acting.reserve()
        await acting.act()
    assert server.of(PARTITIONS) == []


async def test_the_classes_of_a_layout_that_is_made_anew_are_deleted_with_it_and_not_with_the_former_one() -> (
    None
):
    """The garbage collector deletes what only an owner has that is gone, and leaves what has none at all."""
    world = cut()
    (raw,) = plan(world).classes
    world.see(CLASSES, raw)
    layout = remade(world)
    server = Server(world)
    async with server.client() as client:
        acting = controller(world, client)
        for _ in range(3):
            acting.reserve()
            await acting.act()
    (made,) = [found for found in world.snapshot.classes.values() if found.name == CLASS]
    assert made.owners == (layout.metadata.uid,)
    assert server.of(CLASSES) == ["PATCH"]
