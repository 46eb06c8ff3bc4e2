"""One real node for all tests of this folder, with operator and agent; every test leaves it as it found it."""

from collections.abc import AsyncIterator

import pytest

from testbed.binaries import Binaries
from testbed.realnode.installation import RealNodeInstallation
from testbed.realnode.workload import MANAGED, Workload


@pytest.fixture(scope="package")
async def installation(binaries: Binaries, node_binaries: Binaries) -> AsyncIterator[RealNodeInstallation]:
    """Run control plane, operator, node and agent."""
    async with RealNodeInstallation(binaries=binaries, programs=node_binaries) as made:
        yield made


@pytest.fixture
async def work(installation: RealNodeInstallation) -> AsyncIterator[Workload]:
    """Give a namespace for pods; whatever a test leaves in it is ended."""
    installation.cluster.check()
    name = await installation.cluster.make_namespace("team", MANAGED)
    work = Workload(installation.cluster, installation.node, name)
    yield work
    await work.empty()
    await installation.cluster.drop_namespace(name)
    await installation.nothing_left(warm=True)
