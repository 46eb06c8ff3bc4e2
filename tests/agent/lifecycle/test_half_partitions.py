"""A GPU instance of ours without its compute instance is no person's: its removal has broken off, or is under way."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pynvml
import pytest

from apportion.agent.devices.nvml.backend import NvmlBackend
from apportion.agent.devices.values import PartitionPlace, Placement
from apportion.agent.inventorybuilder import InventoryBuilder
from apportion.agent.kubelet.heldclaims import HeldClaims
from apportion.agent.kubelet.recoverclaims import note_interrupted
from apportion.agent.slices.nodeinventory import NodeInventory
from apportion.agent.tables import partition_json
from apportion.cluster.client import Object
from apportion.cluster.kinds import EVENTS, NODES
from testbed.beside import beside
from testbed.eventually import eventually
from tests.agent.kubelet.filesbelow import REF, preparer
from tests.agent.lifecycle.monitored import monitored
from tests.agent.lifecycle.onecard import LAYOUT, PLACE, OneCard, one_card
from tests.agent.nvml.nodes import Node, Nodes


async def half_removed(node: OneCard, gpu: Node, **spec: Any) -> Object:
    """Have a partition cut, and its removal break off between its two steps."""
    item = node.partition("p1", **spec)
    await node.work()
    gpu.fake.fail("nvmlGpuInstanceDestroy", pynvml.NVML_ERROR_IN_USE, times=-1)
    node.delete(item)
    await node.work()
    assert [found.complete for found in await node.live()] == [False]
    return item


async def published(node: OneCard) -> NodeInventory:
    """Return what is published of a node that shuts cards with a person's partitions."""
    held = HeldClaims(node.context)
    await held.check()
    return await InventoryBuilder(node.context, held, quarantine=True).build()


@pytest.mark.parametrize("layout", [False, True])
async def test_what_a_removal_has_left_shuts_no_card(
    tmp_path: Path, make_gpus: Nodes, *, layout: bool
) -> None:
    """A layout's room is taken as long as it is there, and its device is not offered any more."""
    gpu = make_gpus()
    async with one_card(tmp_path, gpu.backend) as node:
        await half_removed(node, gpu, **({"origin": "Layout", "holder": LAYOUT} if layout else {}))
        made = await published(node)
        assert (made.taints, made.static) == ({}, ())
        assert made.occupied == ((PLACE,) if layout else ())
        (half,) = await node.live()
        shown = partition_json(half, node.context.journal.partitions(), ())
        assert (shown["owner"], shown["step"]) == ("layout" if layout else "partition", "Releasing")


async def test_no_event_calls_what_a_removal_has_left_a_persons(tmp_path: Path, make_gpus: Nodes) -> None:
    """People would look for who made it."""
    gpu = make_gpus()
    async with one_card(tmp_path, gpu.backend) as node:
        node.server.put(NODES, {"metadata": {"name": "n"}})
        await half_removed(node, gpu)
        monitor, recorder = monitored(node)

        async def written() -> list[Object]:
            return node.server.all(EVENTS)

        async with beside(recorder.run()):
            await monitor.check(partitions=True)
            gpu.backend.create(PartitionPlace("gpu-0", "1g.10gb", Placement(0, 1)))
            await monitor.check(partitions=True)
            events = await eventually(written, bool)
    assert ["1g.10gb at 0" in event["message"] for event in events] == [True]


async def test_a_claim_for_the_whole_card_waits_until_the_rest_is_removed(
    tmp_path: Path, make_gpus: Nodes
) -> None:
    """Kubelet would ask again with the next sync of the pod, a minute later."""
    gpu = make_gpus()
    async with one_card(tmp_path, gpu.backend) as node:
        await half_removed(node, gpu)
        waiting = asyncio.ensure_future(preparer(tmp_path, node, "gpu-0").prepare(REF))
        assert await asyncio.wait({waiting}, timeout=0.3) == (set(), {waiting})
        gpu.fake.heal()
        await node.work()
        assert [device.device for device in await waiting] == ["gpu-0"]


async def test_what_a_removal_has_left_is_removed_after_a_lost_journal(
    tmp_path: Path, make_gpus: Nodes
) -> None:
    """It has no UUID any more, by which the status of its object tells whose it is: it was nobody's, and its room lost."""
    gpu = make_gpus()
    async with one_card(tmp_path, gpu.backend) as node:
        await half_removed(node, gpu)
        seen = node.items
    async with one_card(tmp_path, gpu.backend, "lost", seen=seen) as node:
        await note_interrupted(node.context)
        for _ in range(2):
            await node.work()
        assert [*node.items] == [*seen]
        gpu.fake.heal()
        await node.work()
        assert (node.items, await node.live()) == ({}, ())


async def test_what_a_person_has_half_made_there_is_left_alone_after_a_lost_journal(
    tmp_path: Path, make_gpus: Nodes
) -> None:
    """The driver gave it another id, because one of ours was there when the person began."""
    gpu = make_gpus()
    async with one_card(tmp_path, gpu.backend) as node:
        item = node.partition("p1")
        await node.work()
        seen = {
            name: each | {"status": each["status"] | {"instance": {"gpuInstance": "6"}}}
            for name, each in node.items.items()
        }
        gpu.fake.fail("nvmlGpuInstanceDestroy", pynvml.NVML_ERROR_IN_USE, times=-1)
        node.delete(item)
        await node.work()
    gpu.fake.heal()
    async with one_card(tmp_path, gpu.backend, "lost", seen=seen) as node:
        await note_interrupted(node.context)
        node.delete(item)
        await node.work()
        assert node.items == {}
        assert [found.complete for found in await node.live()] == [False]


async def test_what_was_looked_at_in_the_middle_of_its_removal_is_not_published(
    tmp_path: Path, make_gpus: Nodes
) -> None:
    """The second GPU is slow to answer, and the removal done when it does."""
    gpus = make_gpus(["H100-80GB"] * 2)
    half, goes_on = threading.Event(), threading.Event()

    def at(step: str) -> None:
        if step == "hardware.half_removed":
            half.set()
            goes_on.wait()

    async with one_card(tmp_path, NvmlBackend(gpus.root, at=at), patience=60) as node:
        item = node.partition("p1")
        await node.work()
        node.delete(item)
        removing = asyncio.ensure_future(node.work())
        assert await asyncio.to_thread(half.wait, 10)
        gpus.fake.hang("*", card=1)
        looking = asyncio.ensure_future(published(node))
        assert await asyncio.wait({looking}, timeout=0.3) == (set(), {looking})
        goes_on.set()
        await removing
        gpus.fake.drop_rules()
        made = await looking
        assert (made.occupied, made.taints) == ((), {})
