"""A partition that is removed while the cards are looked at is in no answer: not in slices, and not as a person's."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from apportion.agent.devices.values import PartitionPlace, Placement
from apportion.agent.inventorybuilder import InventoryBuilder
from apportion.agent.kubelet.heldclaims import HeldClaims
from apportion.cluster.client import Object
from apportion.cluster.kinds import EVENTS, NODES
from testbed.beside import beside
from testbed.eventually import eventually
from tests.agent.lifecycle.monitored import monitored
from tests.agent.lifecycle.onecard import LAYOUT, OneCard, one_card
from tests.agent.nvml.nodes import Node, Nodes

R = TypeVar("R")


async def removed_during(gpus: Node, node: OneCard, item: Object, looking: Coroutine[Any, Any, R]) -> R:
    """Have the partition of the first GPU removed between a look and what is made of it: the second GPU is slow."""
    gpus.fake.hang("*", card=1)
    task = asyncio.ensure_future(looking)
    assert await asyncio.wait({task}, timeout=0.3) == (set(), {task})
    node.delete(item)
    await node.work()
    assert gpus.fake.instances() == ()
    gpus.fake.drop_rules()
    return await task


@pytest.mark.parametrize("layout", [False, True])
async def test_it_is_not_published(tmp_path: Path, make_gpus: Nodes, *, layout: bool) -> None:
    """A static device would be allocated that is gone; with `--foreign quarantine` the card would be shut."""
    gpus = make_gpus(["H100-80GB"] * 2)
    async with one_card(tmp_path, gpus.backend, patience=60) as node:
        spec: dict[str, Any] = {"origin": "Layout", "holder": LAYOUT} if layout else {}
        item = node.partition("p1", **spec)
        await node.work()
        held = HeldClaims(node.context)
        await held.check()
        inventory = InventoryBuilder(node.context, held, quarantine=True)
        assert len((await inventory.build()).static) == layout
        made = await removed_during(gpus, node, item, inventory.build())
        assert (made.occupied, made.static, made.taints) == ((), (), {})


async def test_no_event_calls_it_a_persons(tmp_path: Path, make_gpus: Nodes) -> None:
    """People would look for who made it."""
    gpus = make_gpus(["H100-80GB"] * 2)
    async with one_card(tmp_path, gpus.backend, patience=60) as node:
        node.server.put(NODES, {"metadata": {"name": "n"}})
        item = node.partition("p1")
        await node.work()
        monitor, recorder = monitored(node)

        async def written() -> list[Object]:
            return node.server.all(EVENTS)

        async with beside(recorder.run()):
            await removed_during(gpus, node, item, monitor.check(partitions=True))
            gpus.backend.create(PartitionPlace("gpu-0", "1g.10gb", Placement(0, 1)))
            await monitor.check(partitions=True)
            events = await eventually(written, bool)
    assert [(event["reason"], "1g.10gb at 0" in event["message"]) for event in events] == [
        ("ForeignPartition", True)
    ]
