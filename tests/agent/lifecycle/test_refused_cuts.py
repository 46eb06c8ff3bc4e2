"""A cut that the driver refused, or did not answer, does not make the agent the owner of what a person cuts there later."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pynvml
import pytest

from apportion.agent.devices.nvml.backend import NvmlBackend
from apportion.agent.rows import Step
from apportion.cluster.client import Object
from tests.agent.lifecycle.onecard import DEVICE, LAYOUT, PLACE, OneCard, one_card
from tests.agent.nvml.nodes import Node, Nodes

CLAIM = {"kind": "ResourceClaim", "namespace": "team", "name": "c", "uid": "c"}
CREATE = "nvmlDeviceCreateGpuInstanceWithPlacement"
PID = 4711


def keep_mode(gpu: Node) -> None:
    """Have a program use the GPU, so that its MIG mode cannot be switched."""
    gpu.fake.occupy_gpu(0, PID)


def keep_instances(gpu: Node) -> None:
    """Have the driver say of each GPU instance that something is in use."""
    gpu.fake.fail(CREATE, pynvml.NVML_ERROR_IN_USE, times=-1)


def time_out(gpu: Node) -> None:
    """Have the driver time out: it may make what it was asked for yet."""
    gpu.fake.fail(CREATE, pynvml.NVML_ERROR_TIMEOUT, times=-1)


async def refused(node: OneCard, gpu: Node, refuse: Callable[[Node], None], **spec: object) -> Object:
    """Have a cut refused, and the driver cut again."""
    refuse(gpu)
    item = node.partition("p1", DEVICE, **spec)
    await node.work()
    assert node.status(item)["conditions"][0]["reason"] == "Busy"
    gpu.fake.occupy_gpu(0, 0)
    gpu.fake.heal()
    return item


@pytest.mark.parametrize(
    "spec",
    [{"origin": "Claim", "holder": CLAIM}, {"origin": "Layout", "holder": LAYOUT}],
    ids=["claim", "layout"],
)
@pytest.mark.parametrize("refuse", [keep_mode, keep_instances])
async def test_what_a_person_cuts_after_a_refusal_is_given_to_nobody(
    tmp_path: Path, make_gpus: Nodes, refuse: Callable[[Node], None], spec: dict[str, object]
) -> None:
    """A claim got a partition by its place alone, and the policy for foreign partitions is to leave them."""
    gpu = make_gpus()
    async with one_card(tmp_path, gpu.backend) as node:
        item = await refused(node, gpu, refuse, **spec)
        assert node.context.journal.partitions() == {}
        NvmlBackend(gpu.root).create(PLACE)
        await node.work()
        assert (node.status(item)["phase"], node.status(item).get("uuid")) == ("Pending", None)


@pytest.mark.parametrize("refuse", [keep_mode, keep_instances])
async def test_what_a_person_cuts_after_a_refusal_is_not_removed_with_the_object(
    tmp_path: Path, make_gpus: Nodes, refuse: Callable[[Node], None]
) -> None:
    """The claim went elsewhere, and the operator deletes the object."""
    gpu = make_gpus()
    async with one_card(tmp_path, gpu.backend) as node:
        item = await refused(node, gpu, refuse, origin="Claim", holder=CLAIM)
        made = NvmlBackend(gpu.root).create(PLACE)
        node.delete(item)
        await node.work()
        assert node.items == {}
        assert [each.uuid for each in await node.live()] == [made.uuid]


@pytest.mark.parametrize("deleted", [False, True])
async def test_what_is_in_use_is_not_what_a_driver_made_late(
    tmp_path: Path, make_gpus: Nodes, *, deleted: bool
) -> None:
    """Nobody was given what the driver may make yet."""
    gpu = make_gpus()
    async with one_card(tmp_path, gpu.backend) as node:
        item = await refused(node, gpu, time_out)
        made = NvmlBackend(gpu.root).create(PLACE)
        gpu.fake.occupy(made.uuid, PID)
        if deleted:
            node.delete(item)
        await node.work()
        if deleted:
            assert node.items == {}
        else:
            assert (node.status(item)["phase"], node.status(item).get("uuid")) == ("Pending", None)
        assert node.context.journal.partitions() == {}
        assert [each.uuid for each in await node.live()] == [made.uuid]


async def test_what_a_person_cuts_after_a_removal_is_given_to_nobody(
    tmp_path: Path, make_gpus: Nodes
) -> None:
    """A removal ended between its two steps, and a restored backup of etcd wants the partition again."""
    gpu = make_gpus()
    async with one_card(tmp_path, gpu.backend) as node:
        item = node.partition("p1")
        await node.work()
        (own,) = await node.live()
        row = node.context.journal.partitions()["p1"]
        node.context.journal.put_partition(replace(row, step=Step.RELEASING))
        gpu.backend.destroy(own)
        NvmlBackend(gpu.root).create(PLACE)
        await node.work()
        assert (node.status(item)["phase"], node.status(item).get("uuid")) == ("Pending", None)
