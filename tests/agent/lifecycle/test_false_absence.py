"""A driver that says once that something is not there, although it is: nobody forgets whose it is."""

from pathlib import Path

import pynvml
import pytest

from tests.agent.lifecycle.onecard import one_card
from tests.agent.nvml.nodes import Nodes

MODE_OFF = pynvml.NVML_ERROR_NOT_SUPPORTED
GONE = pynvml.NVML_ERROR_NOT_FOUND
PROFILES, SHAPES = 7, 4
"""Of GPU instances of an H100, and of compute instances of one of them: a look asks about one after the other."""


@pytest.mark.parametrize(
    ("symbol", "code", "times"),
    [
        ("nvmlDeviceGetMigMode", MODE_OFF, 1),
        ("nvmlDeviceGetGpuInstances", MODE_OFF, PROFILES),
        ("nvmlGpuInstanceGetInfo", GONE, 1),
        ("nvmlGpuInstanceGetComputeInstances", GONE, SHAPES),
        ("nvmlDeviceGetUUID", GONE, 1),
        ("nvmlGpuInstanceDestroy", GONE, 1),
    ],
)
async def test_what_is_there_is_removed_all_the_same(
    tmp_path: Path, make_gpus: Nodes, symbol: str, code: int, times: int
) -> None:
    """Its row was dropped, and its object went: the instance was nobody's, and its room lost."""
    gpu = make_gpus()
    async with one_card(tmp_path, gpu.backend) as node:
        item = node.partition("p1")
        await node.work()
        node.delete(item)
        gpu.fake.fail(symbol, code, times=times)
        await node.work()
        assert bool(gpu.fake.instances()) == bool(node.context.journal.partitions())
        gpu.fake.drop_rules()
        await node.work()
        assert (gpu.fake.instances(), node.items, node.context.journal.partitions()) == ((), {}, {})
