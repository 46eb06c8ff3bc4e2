"""What real cards and disks do to a node: pods run all the same, each with the device of its claim."""

from collections.abc import AsyncIterator

import pytest

from testbed.binaries import Binaries
from testbed.realnode.installation import RealNodeInstallation
from testbed.realnode.trials import TRIALS
from testbed.realnode.workload import MANAGED, Workload


@pytest.fixture(scope="module")
async def faulty(binaries: Binaries, node_binaries: Binaries) -> AsyncIterator[RealNodeInstallation]:
    """Run a node with two GPUs, an NPU, and a disk for the journal that can be filled."""
    made = RealNodeInstallation(
        gpus=("H100-80GB",) * 2, name="faulty", small_disk=True, binaries=binaries, programs=node_binaries
    )
    async with made:
        yield made


@pytest.mark.parametrize("title", TRIALS)
async def test_pods_run_all_the_same_when(faulty: RealNodeInstallation, title: str) -> None:
    """And nothing but warm partitions is left."""
    faulty.cluster.check()
    name = await faulty.cluster.make_namespace("team", MANAGED)
    work = Workload(faulty.cluster, faulty.node, name)
    try:
        await TRIALS[title](faulty, work)
    finally:
        await work.empty()
    await faulty.cluster.drop_namespace(name)
    await faulty.nothing_left(warm=True)
