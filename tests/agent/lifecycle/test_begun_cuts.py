"""An agent is killed while it cuts a partition, and its journal is lost: the next one knows whose the partition is."""

from pathlib import Path

import pytest

from apportion.agent.devices.simulated.backend import SimulatedBackend
from apportion.agent.devices.values import PartitionPlace
from apportion.agent.kubelet.recoverclaims import note_interrupted
from apportion.agent.lifecycle.worker import CardWorker
from apportion.agent.slices.naming import partition_devices
from apportion.cluster.client import Object
from tests.agent.lifecycle.onecard import OneCard, one_card
from tests.agent.lifecycle.test_late_answers import failing
from tests.agent.places import NPU, MakeBackend


class Killed(BaseException):
    """Stands for SIGKILL."""


def kill(step: str) -> None:
    """End the agent right after the driver has made the partition."""
    if step == "hardware.created":
        raise Killed


def wanted(node: OneCard, backend: SimulatedBackend) -> Object:
    """Write a Partition for a part of the only card."""
    (card,) = backend.devices()
    part = next(partition_devices(card))
    return node.partition("p1", part.name, driver=NPU, parent=card.name, profile=part.profile.name)


async def begin_anew(node: OneCard, card: str) -> None:
    """Have an agent that has lost its journal begin, and make two rounds."""
    await note_interrupted(node.context)
    for _ in range(2):
        await CardWorker(node.context, card).round()


@pytest.mark.parametrize(("model", "card"), [("H100-80GB", "gpu-0"), ("910B4", "npu-0")])
@pytest.mark.parametrize("deleted", [False, True])
async def test_what_a_killed_agent_was_making_is_the_objects(
    tmp_path: Path, make_backend: MakeBackend, model: str, card: str, *, deleted: bool
) -> None:
    """The name of a vNPU does not say where it is: it was nobody's, and its room lost."""
    backend = make_backend(cards=[{"model": model}])
    async with one_card(tmp_path, backend) as node:
        item = wanted(node, backend)
        node.context.at = kill
        with pytest.raises(Killed):
            await CardWorker(node.context, card).round()
        (made,) = backend.partitions()
        if deleted:
            node.delete(item)
        seen = node.items
    async with one_card(tmp_path, backend, "lost", seen=seen) as node:
        await begin_anew(node, card)
        assert backend.partitions() == (() if deleted else (made,))
        assert [each.get("status", {}).get("uuid") for each in node.items.values()] == [made.uuid] * (
            not deleted
        )


async def test_a_vnpu_that_a_driver_makes_late_is_the_objects(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """That the driver has timed out is written down beside the place."""
    backend = make_backend(cards=[{"model": "910B4"}])
    async with one_card(tmp_path, backend) as node:
        item = wanted(node, backend)
        with failing(backend, "Busy"):
            for _ in range(2):
                await CardWorker(node.context, "npu-0").round()
        placement = node.context.begun.placement("p1")
        assert placement is not None
        seen = node.items
    made = backend.create(PartitionPlace("npu-0", item["spec"]["profile"], placement))
    async with one_card(tmp_path, backend, "lost", seen=seen) as node:
        assert node.context.may_come("p1")
        await begin_anew(node, "npu-0")
        assert backend.partitions() == (made,)
        assert node.status(item)["uuid"] == made.uuid
