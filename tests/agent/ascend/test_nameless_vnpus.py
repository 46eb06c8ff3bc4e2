"""A driver does not tell a vNPU's template for a while: it is whose it was, and neither made a second time nor left behind."""

from pathlib import Path

import pytest

from apportion.agent.devices.values import LivePartition
from apportion.agent.inventorybuilder import InventoryBuilder
from apportion.agent.kubelet.heldclaims import HeldClaims
from apportion.agent.lifecycle.worker import CardWorker
from apportion.cluster.client import Object
from apportion.cluster.kinds import EVENTS, NODES
from testbed.beside import beside
from testbed.eventually import eventually
from tests.agent.ascend.nodes import Nodes
from tests.agent.lifecycle.monitored import monitored
from tests.agent.lifecycle.onecard import LAYOUT, OneCard, one_card
from tests.agent.lifecycle.test_begun_cuts import Killed, begin_anew, kill
from tests.agent.places import NPU


def wanted(node: OneCard, **spec: object) -> Object:
    """Write a Partition of npu-0."""
    return node.partition(
        "p1", "npu-0-vir05-1c-8g-2", driver=NPU, parent="npu-0", profile="vir05_1c_8g", **spec
    )


async def check(node: OneCard, item: Object, made: LivePartition, *, deleted: bool) -> None:
    """Check that the vNPU is its Partition's, or gone with it, and no other one is there."""
    assert (node.items == {}) is deleted
    assert await node.live() == (() if deleted else (made,))
    if not deleted:
        assert (node.status(item)["phase"], node.status(item)["uuid"]) == ("Idle", made.uuid)


@pytest.mark.parametrize("deleted", [False, True], ids=["kept", "deleted"])
async def test_a_vnpu_without_a_name_is_the_objects(
    tmp_path: Path, node_with: Nodes, *, deleted: bool
) -> None:
    """A second one would take its cores, and the first would be nobody's for ever."""
    chips = node_with()
    async with one_card(tmp_path, chips.backend) as node:
        item = wanted(node)
        worker = CardWorker(node.context, "npu-0")
        await worker.round()
        (made,) = await node.live()
        with chips.fake.nameless(0):
            assert [found.profile for found in await node.live()] == [""]
            if deleted:
                node.delete(item)
            # What is left behind after the round that ends its object is nobody's.
            for _ in range(1 if deleted else 3):
                worker.wake()
                await worker.round()
        await check(node, item, made, deleted=deleted)


@pytest.mark.parametrize("layout", [False, True])
async def test_a_chip_with_a_vnpu_without_a_name_is_offered_as_before(
    tmp_path: Path, node_with: Nodes, *, layout: bool
) -> None:
    """Nothing of it was, and the layout's device went: the vNPU passed for one that a person had made of an unknown template."""
    chips = node_with()
    async with one_card(tmp_path, chips.backend) as node:
        wanted(node, **({"origin": "Layout", "holder": LAYOUT} if layout else {}))
        await CardWorker(node.context, "npu-0").round()
        held = HeldClaims(node.context)
        await held.check()
        inventory = InventoryBuilder(node.context, held, quarantine=True)
        before = await inventory.build()
        assert len(before.static) == layout
        with chips.fake.nameless(0):
            assert await inventory.build() == before


async def test_no_event_calls_a_vnpu_without_a_name_a_persons(tmp_path: Path, node_with: Nodes) -> None:
    """People would look for who made it."""
    chips = node_with()
    async with one_card(tmp_path, chips.backend) as node:
        node.server.put(NODES, {"metadata": {"name": "n"}})
        wanted(node)
        await CardWorker(node.context, "npu-0").round()
        monitor, recorder = monitored(node)

        async def written() -> list[Object]:
            return node.server.all(EVENTS)

        async with beside(recorder.run()):
            with chips.fake.nameless(0):
                await monitor.check(partitions=True)
            chips.fake.create_by_hand(0, "vir05_1c_8g", 107)
            await monitor.check(partitions=True)
            events = await eventually(written, bool)
    assert ["107" in event["message"] for event in events] == [True]


@pytest.mark.parametrize("deleted", [False, True], ids=["kept", "deleted"])
async def test_a_vnpu_without_a_name_is_the_objects_after_a_lost_journal(
    tmp_path: Path, node_with: Nodes, *, deleted: bool
) -> None:
    """It was written down without a template: once the driver told that, the vNPU was nobody's, and its device refused for good."""
    chips = node_with()
    async with one_card(tmp_path, chips.backend) as node:
        wanted(node)
        await CardWorker(node.context, "npu-0").round()
        (made,) = await node.live()
        seen = node.items
    async with one_card(tmp_path, chips.backend, "lost", seen=seen) as node:
        (item,) = node.items.values()
        worker = CardWorker(node.context, "npu-0")
        with chips.fake.nameless(0):
            await worker.round()
        if deleted:
            node.delete(item)
        worker.wake()
        await worker.round()
        await check(node, item, made, deleted=deleted)
        if not deleted:
            assert node.context.unsupported == set()


async def test_a_vnpu_without_a_name_that_a_killed_agent_was_making_is_the_objects(
    tmp_path: Path, node_with: Nodes
) -> None:
    """A second one was made beside it, and the first was nobody's."""
    chips = node_with()
    async with one_card(tmp_path, chips.backend) as node:
        item = wanted(node)
        node.context.at = kill
        with pytest.raises(Killed):
            await CardWorker(node.context, "npu-0").round()
        (made,) = await node.live()
        seen = node.items
    async with one_card(tmp_path, chips.backend, "lost", seen=seen) as node:
        with chips.fake.nameless(0):
            await begin_anew(node, "npu-0")
        await check(node, item, made, deleted=False)
