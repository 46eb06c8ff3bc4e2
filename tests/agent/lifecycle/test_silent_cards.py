"""The journal was lost, and the card does not answer when the next agent starts: what is on it is unknown, and ours all the same."""

from pathlib import Path

import pytest

from tests.agent.lifecycle.onecard import one_card
from tests.agent.nvml.nodes import Node, Nodes

GPU_IS_LOST = 15


def silence(gpu: Node) -> None:
    """Have the card not say what is on it, until rules are dropped."""
    gpu.fake.fail("nvmlDeviceGetGpuInstances", GPU_IS_LOST, times=-1)


@pytest.mark.parametrize("silent", ["card", "driver"])
async def test_a_status_says_whose_a_partition_is_until_its_card_answers(
    tmp_path: Path, make_gpus: Nodes, silent: str
) -> None:
    """Nothing else says it: without the UUID the partition would be a person's, and in the way of its own object for ever."""
    gpu = make_gpus()
    async with one_card(tmp_path, gpu.backend) as former:
        item = former.partition("p1")
        await former.work()
        (made,) = await former.live()
        seen = former.items
    backend = gpu.anew()
    if silent == "card":
        silence(gpu)
    else:
        gpu.fake.unload()
    async with one_card(tmp_path, backend, "lost", seen=seen) as node:
        assert [*node.context.hardware.cards] == (["gpu-0"] if silent == "card" else [])
        await node.work()
        assert node.status(item)["uuid"] == made.uuid
        gpu.fake.drop_rules()
        gpu.fake.unload(loaded=True)
        await node.context.hardware.discover()
        await node.work()
        assert node.status(item)["phase"] == "Idle"
        assert await node.live() == (made,)


@pytest.mark.slow
async def test_an_object_stays_until_the_card_says_that_its_partition_is_gone(
    tmp_path: Path, make_gpus: Nodes
) -> None:
    """It would be nobody's, and its room lost."""
    gpu = make_gpus()
    async with one_card(tmp_path, gpu.backend) as former:
        item = former.partition("p1")
        await former.work()
        former.delete(item)
        seen = former.items
    backend = gpu.anew()
    gpu.fake.unload()
    async with one_card(tmp_path, backend, "lost", seen=seen) as node:
        await node.work()
        assert node.items.keys() == seen.keys()
        gpu.fake.unload(loaded=True)
        await node.context.hardware.discover()
        await node.work()
        assert node.items == {}
        assert await node.live() == ()
