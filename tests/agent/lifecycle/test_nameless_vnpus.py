"""A driver does not tell a vNPU's template for a while: it is whose it was, and neither made a second time nor left behind."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest

from apportion.agent.devices.simulated.backend import SimulatedBackend
from apportion.agent.devices.values import LivePartition
from apportion.agent.lifecycle.worker import CardWorker
from apportion.cluster.client import Object
from tests.agent.lifecycle.onecard import OneCard, one_card
from tests.agent.places import NPU, MakeBackend


def silenced(patch: pytest.MonkeyPatch, backend: SimulatedBackend) -> None:
    """Have the driver name no templates."""
    named = backend.partitions

    def untold(cards: Collection[str] | None = None) -> tuple[LivePartition, ...]:
        return tuple(replace(each, profile="") for each in named(cards))

    patch.setattr(backend, "partitions", untold)


def wanted(node: OneCard) -> Object:
    """Write a Partition of npu-0."""
    return node.partition(
        "p1", "npu-0-vir05-1c-8g-2", driver=NPU, parent="npu-0", profile="vir05_1c_8g", origin="Warm"
    )


@pytest.mark.parametrize("deleted", [False, True], ids=["kept", "deleted"])
async def test_a_vnpu_without_a_name_is_the_objects(
    tmp_path: Path, make_backend: MakeBackend, *, deleted: bool
) -> None:
    """A second one would take its cores, and the first would be nobody's for ever."""
    backend = make_backend(cards=[{"model": "910B4"}])
    async with one_card(tmp_path, backend) as node:
        item = wanted(node)
        worker = CardWorker(node.context, "npu-0")
        await worker.round()
        (made,) = await node.live()
        with pytest.MonkeyPatch.context() as patch:
            silenced(patch, backend)
            if deleted:
                node.delete(item)
            for _ in range(3):
                worker.wake()
                await worker.round()
        assert await node.live() == (() if deleted else (made,))
        if not deleted:
            assert (node.status(item)["phase"], node.status(item)["uuid"]) == ("Idle", made.uuid)
