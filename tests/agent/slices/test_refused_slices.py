"""Slices that the API server refuses, for whatever reason."""

import asyncio
from pathlib import Path

import pytest
from kubernetes_asyncio.client import Configuration

from apportion.agent.slices.nodeinventory import NodeInventory
from apportion.agent.slices.publisher import Publisher
from apportion.agent.slices.succession import Succession
from apportion.cluster.client import Client, Object
from apportion.cluster.kinds import NODES, SLICES, ResourceKind
from apportion.errors import ApiError
from testbed.beside import beside
from tests.agent.places import DRIVERS, GPU, H100, RDMA, MakeBackend
from tests.cluster.apiserver import ApiServer


class Refusing(Client):
    """A client whose server takes no slice of GPUs."""

    async def create(
        self, kind: ResourceKind, body: Object, *, namespace: str = "", under: str = "", **params: str
    ) -> Object:
        """Create an object, or refuse it."""
        if kind is SLICES and body["spec"]["driver"] == GPU:
            raise ApiError("it is invalid", status=422)
        return await super().create(kind, body, namespace=namespace, under=under, **params)


async def test_a_driver_whose_slices_are_refused_keeps_no_other_one_from_its_slices(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """NICs were not offered, or kept what had been said of them, for as long as something about the GPUs was refused."""
    cards = make_backend(
        cards=[H100], nics=[{"name": "mlx5-0", "pcieRoot": "pci0000:10", "numaNode": 0}]
    ).devices()

    async def inventory() -> NodeInventory:
        return NodeInventory(cards)

    async with ApiServer().serving() as server:
        server.put(NODES, {"metadata": {"name": "n"}})
        settings = Configuration(host=f"http://127.0.0.1:{server.port}")
        async with Refusing(settings, patience=5.0, manager="apportion-agent") as client:
            publisher = Publisher(client, "n", DRIVERS, inventory, Succession(tmp_path))
            with pytest.raises(ApiError, match="it is invalid"):
                await publisher.publish()
            assert [each["spec"]["driver"] for each in server.all(SLICES)] == [RDMA]


async def test_a_name_that_another_nodes_slice_has_is_tried_less_and_less(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """The agent asked the API server for all of it twenty times a second, and called itself ready."""
    cards = make_backend(cards=[H100]).devices()
    pauses: list[float] = []
    enough = asyncio.Event()

    async def inventory() -> NodeInventory:
        return NodeInventory(cards)

    async def paused(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 4:
            enough.set()
        await asyncio.sleep(0)

    async with ApiServer().serving() as server, server.client() as client:
        server.put(NODES, {"metadata": {"name": "n"}})
        taken = {"driver": GPU, "nodeName": "other", "pool": {"name": "other"}}
        server.put(SLICES, {"metadata": {"name": f"n-{GPU}-counters-00"}, "spec": taken})
        publisher = Publisher(client, "n", DRIVERS, inventory, Succession(tmp_path), sleep=paused)
        async with beside(publisher.run()):
            await enough.wait()
        assert pauses[1:4] == [0.2, 0.4, 0.8]
        assert not publisher.published.is_set()
