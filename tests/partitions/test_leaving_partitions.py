"""Partitions of layouts that are to go: nobody gets them meanwhile, and none goes by an outdated plan."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes_asyncio.client import Configuration

from apportion.cluster.client import Client
from apportion.cluster.kinds import LAYOUTS, NODES, PARTITIONS, SLICES, ResourceKind
from apportion.dra.device import DeviceId
from apportion.partitions.actions import Delete
from apportion.partitions.controller import PartitionController
from testbed.beside import beside
from testbed.eventually import eventually
from tests.observedcluster import GPU, Json, ObservedCluster, request
from tests.partitions.layoutworld import cards, plan, publish, show_cut
from tests.partitions.manycards import controller

STATIC = DeviceId(GPU, "n1", "gpu-0-mig-1g10gb-19-0-static")
DELETED = {"deletionTimestamp": "2026-01-01T00:00:01Z"}
OTHER = {"profile": "3g.40gb", "placements": [{"start": 4}]}


class Server:
    """Accepts every deletion of a Partition, and refuses all else."""

    def __init__(self) -> None:
        self.deleted: list[str] = []

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """Serve, and talk to it."""
        app = web.Application()
        app.router.add_delete("/apis/apportion.dev/v1alpha1/partitions/{name}", self._delete)
        async with TestServer(app) as server:
            settings = Configuration(host=str(server.make_url("")).rstrip("/"))
            async with Client(settings, patience=30.0, manager="apportion-operator") as client:
                yield client

    async def gets_deletion(self) -> None:
        """Wait until one was asked for."""

        async def count() -> int:
            return len(self.deleted)

        await eventually(count, within=10)

    async def _delete(self, request: web.Request) -> web.Response:
        self.deleted.append(request.match_info["name"])
        return web.json_response({"metadata": {}})


def cut() -> ObservedCluster:
    """Return a node with one partition of a layout, which is cut, published and in nobody's use."""
    world = cards()
    world.device_class("gpu", f'device.attributes["{GPU}"].?layout.orValue("") == "l"')
    world.layout({"profile": "1g.10gb", "count": 1})
    show_cut(world, plan(world))
    return world


def partition(world: ObservedCluster) -> Json:
    return world.seen[PARTITIONS, "", f"n1-{STATIC.name}"]


def layout_of(world: ObservedCluster) -> tuple[ResourceKind, Json]:
    return LAYOUTS, world.seen[LAYOUTS, "", "l"]


def served(world: ObservedCluster, client: Client) -> bool:
    """Say whether a pass gives somebody a device of the layout."""
    world.cycle(client).once()
    return world.places() != {}


async def test_a_partition_that_its_layout_gives_up_is_given_to_nobody(unanswered: Client) -> None:
    """Its deletion is sent by the plan that the pass began with; a claim that got it meanwhile would wait for ever."""
    world = cut()
    world.wait_for("a", request("gpu"))
    world.layout(OTHER)
    assert not served(world, unanswered)
    assert world.snapshot.state.holders(STATIC) == ("PartitionLayout l on n1",)


@pytest.mark.parametrize("layout", ["stays", "went"])
async def test_a_partition_that_is_being_deleted_is_given_to_nobody_until_it_is_published_no_more(
    unanswered: Client, layout: str
) -> None:
    """The object goes some moments before the device leaves the slices; a layout that is gone holds it as well."""
    world = cut()
    planning = controller(world, unanswered)
    if layout == "went":
        world.gone(*layout_of(world))
    world.see(PARTITIONS, partition(world) | {"metadata": partition(world)["metadata"] | DELETED})
    planning.reserve()
    assert world.snapshot.state.holders(STATIC) == ("PartitionLayout l on n1",)
    world.gone(PARTITIONS, partition(world))
    planning.reserve()
    assert world.snapshot.state.holders(STATIC) == ("PartitionLayout l on n1",)
    publish(world, "n1")
    planning.reserve()
    assert world.snapshot.state.holders(STATIC) == ()


async def test_a_new_leader_gives_nobody_a_partition_whose_object_has_gone(unanswered: Client) -> None:
    """The former leader had it deleted, and its node has not written its slices since: the pod that got it could never start."""
    world = cut()
    world.layout(OTHER)
    world.gone(PARTITIONS, partition(world))
    world.wait_for("a", request("gpu"))
    assert not served(world, unanswered)
    publish(world, "n1")
    controller(world, unanswered).reserve()
    assert world.snapshot.state.holders(STATIC) == ()


async def test_a_partition_that_is_wanted_once_more_is_free(unanswered: Client) -> None:
    """A layout may be put back before anything was deleted."""
    world = cut()
    planning = controller(world, unanswered)
    world.layout(OTHER)
    planning.reserve()
    world.layout({"profile": "1g.10gb", "count": 1})
    planning.reserve()
    assert world.snapshot.state.holders(STATIC) == ()
    world.wait_for("a", request("gpu"))
    assert served(world, unanswered)


async def test_a_partition_that_somebody_got_since_the_plan_stays() -> None:
    """A deletion that failed is tried later by the same plan, and others than we may have given the device away."""
    world, server = cut(), Server()
    world.layout(OTHER)
    async with server.client() as client:
        planning = controller(world, client)
        planning.reserve()
        world.allocate(world.claim("a", request("gpu")), "n1", STATIC.name)
        await planning.act()
        assert server.deleted == []
        world.gone_claim("a")
        planning.reserve()
        await planning.act()
        assert server.deleted == [f"n1-{STATIC.name}"]


async def test_a_leader_plans_before_it_looks_for_partitions_whose_layout_is_gone() -> None:
    """A first pass may take long, and what was planned in an earlier term knows no layout made since."""
    world, server = cut(), Server()
    async with server.client() as client:
        acting = controller(world, client)
        async with beside(acting.run()):
            acting.wake()
            await asyncio.sleep(0.05)
        assert server.deleted == []
        world.gone(*layout_of(world))
        async with beside(acting.run()):
            await server.gets_deletion()
        assert server.deleted == [f"n1-{STATIC.name}"]


def test_wiped_slices_cost_a_layout_none_of_its_partitions() -> None:
    """Kubelet deletes the slices of its node, one after the other, when it starts; a card that a whole pool lacks is another matter."""
    world = cut()
    devices, counters = (world.seen[SLICES, "", f"n1-gpu-0-{each}"] for each in ("devices", "counters"))
    world.gone(SLICES, devices)
    assert plan(world).actions == [], "its counters are there, so the pool is incomplete"
    world.gone(SLICES, counters)
    assert plan(world).actions == []
    world.slice("n1", "n1-other", {"devices": [{"name": "other"}]}, 1)
    assert [type(each) for each in plan(world).actions] == [Delete]


async def test_partitions_of_a_node_that_cannot_be_read_stay() -> None:
    """A newer release may have written it; its agent runs all the same, and pods may be starting with what is cut."""
    world, server = cut(), Server()
    raw = world.seen[NODES, "", "n1"]
    world.see(NODES, raw | {"status": {"allocatable": {"cpu": "many"}}})
    async with server.client() as client:
        acting = controller(world, client)
        await two_minutes(world, acting)
        assert server.deleted == []
        world.gone(NODES, raw)
        await two_minutes(world, acting)
        assert server.deleted == [f"n1-{STATIC.name}"]


async def test_a_node_that_was_missing_in_an_earlier_term_is_waited_for_anew() -> None:
    """It may have come and gone since: nobody looked."""
    world, server = cut(), Server()
    raw = world.seen[NODES, "", "n1"]
    async with server.client() as client:
        acting = controller(world, client)
        world.gone(NODES, raw)
        acting.reserve()
        await acting.act()
        world.clock.now += 61
        async with beside(acting.run()):
            acting.wake()
            await asyncio.sleep(0.05)
        assert server.deleted == []
        await two_minutes(world, acting)
        assert server.deleted == [f"n1-{STATIC.name}"]


async def two_minutes(world: ObservedCluster, acting: PartitionController) -> None:
    """Act at the begin and at the end."""
    acting.reserve()
    await acting.act()
    world.clock.now += 120
    await acting.act()
