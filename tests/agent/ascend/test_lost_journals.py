"""After the journal was lost, the status of a Partition says what is ours; an id that a person has given to another vNPU does not."""

from pathlib import Path

import pytest

from apportion.agent.lifecycle.worker import CardWorker
from tests.agent.ascend.nodes import Nodes
from tests.agent.ascend.test_nameless_vnpus import wanted
from tests.agent.lifecycle.onecard import one_card

TEMPLATE, OTHER = "vir05_1c_8g", "vir10_3c_16g"


@pytest.mark.parametrize("deleted", [False, True], ids=["kept", "deleted"])
async def test_a_vnpu_of_another_template_under_the_id_of_a_partitions_is_a_persons(
    tmp_path: Path, node_with: Nodes, *, deleted: bool
) -> None:
    """Claims were given it, and it was removed with the object."""
    chips = node_with()
    async with one_card(tmp_path, chips.backend) as node:
        wanted(node)
        await CardWorker(node.context, "npu-0").round()
        (made,) = await node.live()
        seen = node.items
    chips.fake.remove_by_hand(made.placement.start)
    chips.fake.create_by_hand(0, OTHER, made.placement.start)
    async with one_card(tmp_path, chips.backend, "lost", seen=seen) as node:
        (item,) = node.items.values()
        if deleted:
            node.delete(item)
        worker = CardWorker(node.context, "npu-0")
        for _ in range(2):
            worker.wake()
            await worker.round()
        live = {found.placement: found for found in await node.live()}
        assert live.pop(made.placement).profile == OTHER
        assert [found.profile for found in live.values()] == ([] if deleted else [TEMPLATE])
        assert (node.items == {}) is deleted
        if not deleted:
            (own,) = live.values()
            assert (node.status(item)["phase"], node.status(item)["uuid"]) == ("Idle", own.uuid)
