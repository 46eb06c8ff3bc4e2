"""Several claims on one device: they share its daemon, and agree, or the later one waits."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from kubernetes_asyncio.client import Configuration

from apportion.agent.cdi import CdiFolder
from apportion.agent.devices.hardware import Hardware
from apportion.agent.devices.sharing import TimeSlice
from apportion.agent.journal import Journal
from apportion.agent.lifecycle.begun import BegunCuts
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.lifecycle.desiredpartitions import DesiredPartitions
from apportion.agent.rows import SharedDevice, SharingRow
from apportion.agent.sharing.setups import Setups
from apportion.cluster.client import Client
from apportion.errors import NotReady, Unsupported
from testbed.fakes.nvml import programs
from tests.agent.lifecycle.onecard import one_card
from tests.agent.nvml.nodes import Nodes
from tests.agent.places import GPU, H100, MakeBackend


@asynccontextmanager
async def node(folder: Path, make_backend: MakeBackend) -> AsyncIterator[AgentContext]:
    """Give the parts of an agent on a simulated GPU."""
    hardware = Hardware([make_backend(cards=[H100])])
    await hardware.discover()
    journal = Journal(folder / "journal.db", "boot")
    try:
        # Nothing here asks the API.
        async with Client(Configuration(), patience=1.0, manager="test") as client:
            yield AgentContext(
                client,
                hardware,
                journal,
                DesiredPartitions(),
                locks_dir=folder / "locks",
                begun=BegunCuts(folder),
            )
    finally:
        journal.close()


def shares(context: AgentContext, claim: str, percentage: int, memory: int) -> SharingRow:
    """Return a claim's use of gpu-0 with limits of its own."""
    uuid = context.hardware.cards["gpu-0"].uuid
    device = SharedDevice("gpu-0", uuid, uuid, mps=True, memory=memory)
    return SharingRow(claim, GPU, (device,), percentage=percentage, own_limits=True)


async def test_claims_with_limits_of_their_own_share_one_daemon_until_the_last_has_gone(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """Each claim's containers have its limits; the first claim's end takes nothing from the second."""
    async with node(tmp_path, make_backend) as context:
        setups = Setups(context, tmp_path, tmp_path / "run", CdiFolder(tmp_path / "cdi"))
        rows = [shares(context, "a", 25, 1024), shares(context, "b", 75, 4096)]
        found = [(await setups.set_up(row, 5.0))["gpu-0"] for row in rows]
        limits = [(dict(edits.env)["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"], edits.mounts) for edits in found]
        assert [each for each, _ in limits] == ["25", "75"]
        assert limits[0][1] == limits[1][1]
        assert dict(found[1].env)["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=4096M"
        assert len(await context.hardware.daemons()) == 1
        await setups.end("a", GPU)
        assert len(await context.hardware.daemons()) == 1
        await setups.end("b", GPU)
        assert await context.hardware.daemons() == {}
        assert list((tmp_path / "mps").iterdir()) == []


async def test_a_claim_that_asks_for_a_device_set_up_otherwise_waits_for_the_other_one(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """What runs keeps what it has; afterwards the device is free for anything."""
    async with node(tmp_path, make_backend) as context:
        setups = Setups(context, tmp_path, tmp_path / "run", CdiFolder(tmp_path / "cdi"))
        first = shares(context, "a", 25, 1024)
        await setups.set_up(first, 5.0)
        (device,) = first.devices
        others = [
            replace(first, uid="b", own_limits=False),
            replace(first, uid="b", devices=(replace(device, mps=False, time_slice=TimeSlice.LONG),)),
        ]
        for other in others:
            with pytest.raises(NotReady, match="by claim a"):
                await setups.set_up(other, 5.0)
        await setups.end("a", GPU)
        await setups.set_up(others[1], 5.0)
        await setups.end("b", GPU)
        assert context.journal.sharing() == ()


async def test_a_time_slice_is_taken_back_also_when_the_driver_has_left_the_host(
    tmp_path: Path, make_gpus: Nodes
) -> None:
    """A driver's container takes its programs along, and the next one waits until no pod has a GPU: it starts with the default."""
    gpu = make_gpus()
    programs.install(gpu.root)
    async with one_card(tmp_path, gpu.backend) as node:
        setups = Setups(node.context, tmp_path, tmp_path / "run", CdiFolder(tmp_path / "cdi"))
        uuid = node.context.hardware.cards["gpu-0"].uuid
        device = SharedDevice("gpu-0", uuid, uuid, TimeSlice.LONG)
        await setups.set_up(SharingRow("a", GPU, (device,)), 5.0)
        assert gpu.fake.shared(0)[1] == int(TimeSlice.LONG)
        shutil.rmtree(gpu.root / "usr")
        with pytest.raises(Unsupported, match="has no nvidia-smi"):
            await setups.set_up(SharingRow("a", GPU, (replace(device, time_slice=TimeSlice.SHORT),)), 5.0)
        await setups.end("a", GPU)
        assert node.context.journal.sharing() == ()
