"""A driver does not tell a vNPU's template for a while: it is whose it was, and neither made a second time nor left behind."""

from pathlib import Path

import pytest

from apportion.agent.lifecycle.worker import CardWorker
from apportion.cluster.client import Object
from tests.agent.ascend.nodes import Nodes
from tests.agent.lifecycle.onecard import OneCard, one_card
from tests.agent.places import NPU


def wanted(node: OneCard) -> Object:
    """Write a Partition of npu-0."""
    return node.partition(
        "p1", "npu-0-vir05-1c-8g-2", driver=NPU, parent="npu-0", profile="vir05_1c_8g", origin="Warm"
    )


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
        assert (node.items == {}) is deleted
        assert await node.live() == (() if deleted else (made,))
        if not deleted:
            assert (node.status(item)["phase"], node.status(item)["uuid"]) == ("Idle", made.uuid)
