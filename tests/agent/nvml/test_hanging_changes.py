"""A driver call that changes a GPU and does not return: one card's trouble, and neither done nor undone before the GPU is read."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from kubernetes_asyncio.client import Configuration

from apportion.agent.devices.hardware import Hardware
from apportion.agent.devices.values import Health, LivePartition, PartitionPlace, Placement
from apportion.agent.journal import Journal
from apportion.agent.lifecycle.begun import BegunCuts
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.lifecycle.cut import cut
from apportion.agent.lifecycle.desiredpartitions import DesiredPartitions
from apportion.agent.lifecycle.release import release
from apportion.agent.rows import Step
from apportion.api.partition import Partition
from apportion.cluster.client import Client
from apportion.errors import HardwareError, Lost
from testbed.eventually import eventually
from tests.agent.nvml.nodes import Node, Nodes

pytestmark = pytest.mark.slow

PLACE = PartitionPlace("gpu-1", "3g.40gb", Placement(4, 4))
CREATE, DESTROY, MODE = (
    "nvmlDeviceCreateGpuInstanceWithPlacement",
    "nvmlGpuInstanceDestroy",
    "nvmlDeviceSetMigMode",
)


async def hardware_of(node: Node) -> Hardware:
    """Return what asks the GPUs."""
    found = Hardware([node.backend], patience=60.0, longest_change=60.0)
    await found.discover()
    return found


@contextmanager
def impatient(hardware: Hardware) -> Iterator[None]:
    """Have a change that hangs be given up soon; any other one takes the time that the machine takes for it."""
    hardware._longest_change = 1.0
    try:
        yield
    finally:
        hardware._longest_change = 60.0


async def answering(hardware: Hardware, card: str = "gpu-1") -> tuple[LivePartition, ...]:
    """Wait until a card answers again, and return what is on it."""

    async def ask() -> tuple[LivePartition, ...] | None:
        try:
            return await hardware.partitions_of(card)
        except HardwareError:
            return None

    found = await eventually(ask, lambda found: found is not None)
    assert found is not None
    return found


@pytest.mark.parametrize("symbol", [CREATE, DESTROY, MODE], ids=["create", "destroy", "make whole"])
async def test_a_gpu_whose_change_does_not_return_is_sick_and_left_alone_until_it_does(
    node: Node, symbol: str
) -> None:
    """It is neither asked nor changed meanwhile, and the other GPU is served; then it says what it has."""
    hardware = await hardware_of(node)
    live = [] if symbol == CREATE else [await hardware.create(PLACE)]
    if symbol == MODE:
        # What a removal leaves when the driver does not take the GPU out of MIG mode.
        node.fake.fail(MODE, 999)
        await hardware.destroy(live.pop())
    node.fake.hang(symbol, card=1)
    change = {
        CREATE: lambda: hardware.create(PLACE),
        DESTROY: lambda: hardware.destroy(live[0]),
        MODE: lambda: hardware.make_whole("gpu-1"),
    }[symbol]
    with impatient(hardware), pytest.raises(Lost, match=r"gpu-1: .* not answered in time; whether it has"):
        await change()
    assert (await hardware.health())["gpu-1"] is Health.SICK
    for call in (change, lambda: hardware.partitions_of("gpu-1"), lambda: hardware.edits("gpu-1")):
        with pytest.raises(Lost, match="gpu-1: the driver has not answered in time"):
            await call()
    other = await hardware.create(PartitionPlace("gpu-0", "3g.40gb", Placement(0, 4)))
    assert await hardware.partitions_of("gpu-0") == (other,)
    node.fake.drop_rules()
    assert len(await answering(hardware)) == (1 if symbol == CREATE else 0)
    assert await hardware.health() == {"gpu-0": Health.HEALTHY, "gpu-1": Health.HEALTHY}


async def test_a_caller_that_gives_up_leaves_the_change_to_its_end(node: Node) -> None:
    """Kubelet's patience ends before a switch of the mode may: the next change waits, and does not come between."""
    hardware = Hardware([node.backend], longest_change=20.0)
    await hardware.discover()
    node.fake.hang(CREATE, card=1)
    first = asyncio.ensure_future(hardware.create(PLACE))

    async def calls() -> int:
        return node.fake.calls().get(CREATE, 0)

    await eventually(calls, lambda count: count == 1)
    first.cancel()
    second = asyncio.ensure_future(hardware.create(PartitionPlace("gpu-1", "3g.40gb", Placement(0, 4))))
    assert not (await asyncio.wait({second}, timeout=0.3))[0]
    assert node.fake.calls()[CREATE] == 1
    node.fake.drop_rules()
    await second
    assert {found.placement.start for found in await hardware.partitions_of("gpu-1")} == {0, 4}


@asynccontextmanager
async def context_of(node: Node, folder: Path) -> AsyncIterator[AgentContext]:
    """Give the parts of an agent."""
    journal = Journal(folder / "journal.db", "boot")
    try:
        # Nothing here asks the API.
        async with Client(Configuration(), patience=1.0, manager="test") as client:
            yield AgentContext(
                client,
                await hardware_of(node),
                journal,
                DesiredPartitions(),
                locks_dir=folder / "locks",
                begun=BegunCuts(folder / "cuts"),
            )
    finally:
        journal.close()


def partition(uid: str) -> Partition:
    """Return a Partition object for the place."""
    spec = {
        "nodeName": "n", "driver": "gpu.apportion.dev", "pool": "n", "device": "gpu-1-mig-3g40gb-9-4",
        "parent": "gpu-1", "profile": "3g.40gb", "origin": "Warm",
    }  # fmt: skip
    return Partition.from_json({"metadata": {"name": "p", "uid": uid, "resourceVersion": "1"}, "spec": spec})


async def test_a_partition_whose_cut_does_not_return_is_found_when_it_does(
    node_with: Nodes, tmp_path: Path
) -> None:
    """Its row says that it was begun, so that what the driver has made is its own: one partition, and none that nobody owns."""
    node = node_with(["H100-80GB"] * 2)
    async with context_of(node, tmp_path) as context:
        card, made = context.hardware.cards["gpu-1"], partition("p1")
        node.fake.hang(CREATE, card=1)
        with impatient(context.hardware):
            outcome = await cut(context, card, made, await context.live("gpu-1"), may_wait=True)
        assert (outcome.phase, outcome.reason, outcome.retry) == ("Failed", "Lost", True)
        row = context.journal.partition("p1")
        assert row is not None
        assert row.step is Step.INTENT
        node.fake.drop_rules()
        (live,) = await answering(context.hardware)
        outcome = await cut(context, card, made, await context.live("gpu-1"), may_wait=True)
        assert outcome.reason == "Cut"
        row = context.journal.partition("p1")
        assert row is not None
        assert (row.step, row.uuid) == (Step.READY, live.uuid)
        assert len(node.fake.instances()) == 1
        node.fake.hang(DESTROY, card=1)
        with impatient(context.hardware):
            refused = await release(context, row, await context.live("gpu-1"))
        assert refused is not None
        assert (refused.phase, refused.reason, refused.retry) == ("Releasing", "Lost", True)
        node.fake.drop_rules()
        assert await answering(context.hardware) == ()
        row = context.journal.partition("p1")
        assert row is not None
        assert row.step is Step.RELEASING
        assert await release(context, row, await context.live("gpu-1")) is None
        assert context.journal.partition("p1") is None
