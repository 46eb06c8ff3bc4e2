"""A driver that says once that something is not there, although it is: nobody forgets whose it is."""

from pathlib import Path
from typing import Any

import pynvml
import pytest

from tests.agent.lifecycle.onecard import DEVICE, LAYOUT, one_card
from tests.agent.nvml.nodes import Nodes

MODE_OFF = pynvml.NVML_ERROR_NOT_SUPPORTED
GONE = pynvml.NVML_ERROR_NOT_FOUND
CLAIM = {"kind": "ResourceClaim", "namespace": "team", "name": "c", "uid": "c"}
PID = 4711
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


@pytest.mark.parametrize(
    "spec",
    [
        {"origin": "Claim", "holder": CLAIM},
        {"device": f"{DEVICE}-static", "origin": "Layout", "holder": LAYOUT},
    ],
    ids=["claim", "layout"],
)
@pytest.mark.parametrize(
    ("symbol", "code", "times"),
    [
        ("nvmlDeviceGetMigMode", MODE_OFF, 1),
        ("nvmlGpuInstanceGetInfo", GONE, 1),
        ("nvmlGpuInstanceGetComputeInstances", GONE, SHAPES),
    ],
)
async def test_what_a_program_uses_stays_the_objects(
    tmp_path: Path, make_gpus: Nodes, symbol: str, code: int, times: int, spec: dict[str, Any]
) -> None:
    """It passed for a person's as soon as it was shown again: its claim could not be prepared anew, and nobody removed it afterwards."""
    gpu = make_gpus()
    async with one_card(tmp_path, gpu.backend) as node:
        item = node.partition("p1", **spec)
        await node.work()
        (made,) = await node.live()
        gpu.fake.occupy(made.uuid, PID)
        gpu.fake.fail(symbol, code, times=times)
        for _ in range(2):
            await node.work()
        assert (node.status(item)["phase"], node.status(item).get("uuid")) == ("Ready", made.uuid)
        gpu.fake.occupy(made.uuid, 0)
        node.delete(item)
        await node.work()
        assert (gpu.fake.instances(), node.items, node.context.journal.partitions()) == ((), {}, {})
