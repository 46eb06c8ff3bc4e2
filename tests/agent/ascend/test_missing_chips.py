"""A chip that its driver does not list when an agent starts: what is on it is unknown, not gone."""

from pathlib import Path

from apportion.agent.devices.ascend.backend import AscendBackend
from apportion.agent.lifecycle.worker import CardWorker
from tests.agent.ascend.nodes import Node
from tests.agent.lifecycle.onecard import one_card
from tests.agent.places import NPU

CARD, DEVICE, TEMPLATE = "npu-1", "npu-1-vir05-1c-8g-2", "vir05_1c_8g"


async def test_a_partition_on_it_is_forgotten_by_nobody(tmp_path: Path, node: Node) -> None:
    """The chip came back with a vNPU of which nobody knew, and its room was lost."""
    async with one_card(tmp_path, node.backend) as former:
        item = former.partition("p1", DEVICE, parent=CARD, profile=TEMPLATE, driver=NPU)
        await CardWorker(former.context, CARD).round()
        (made,) = node.fake.vnpus()
        former.delete(item)
        seen = former.items
    with node.fake.changing() as state:
        state.chips = 1
    async with one_card(tmp_path, AscendBackend(node.root), seen=seen) as without:
        assert [*without.context.hardware.cards] == ["npu-0"]
        await CardWorker(without.context, CARD).round()
        assert [row.uid for row in without.context.journal.partitions().values()] == ["p1"]
        assert without.status(item)["conditions"][0]["reason"] == "Lost"
        seen = without.items
    with node.fake.changing() as state:
        state.chips = 2
    assert node.fake.vnpus() == (made,)
    async with one_card(tmp_path, AscendBackend(node.root), seen=seen) as back:
        await CardWorker(back.context, CARD).round()
        assert (node.fake.vnpus(), back.items, back.context.journal.partitions()) == ((), {}, {})
