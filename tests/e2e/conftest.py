"""One installation for all tests of this folder: five simulated nodes, the operator and agents with their own rights."""

from collections.abc import AsyncIterator

import pytest

from testbed.binaries import Binaries
from testbed.controlplane import ControlPlane
from testbed.demo.nodes import DEMO_MANIFESTS, demo_nodes
from testbed.installation import Installation
from tests.e2e.tenant import FURTHER_DRIVERS, LEASE, MANAGED, Tenant, serving


@pytest.fixture(scope="package")
async def installation(binaries: Binaries) -> AsyncIterator[Installation]:
    """Install on a control plane of its own: other tests install things too."""
    async with (
        ControlPlane(binaries=binaries) as cluster,
        Installation(
            cluster,
            demo_nodes(),
            operator_options=(*LEASE, "--schedulers=default-scheduler,nobody", *FURTHER_DRIVERS),
            manifests=DEMO_MANIFESTS,
        ) as installed,
    ):
        await serving(installed)
        yield installed


@pytest.fixture
async def team(installation: Installation) -> AsyncIterator[Tenant]:
    """Make a namespace in which admission adds our gate; it is emptied afterwards."""
    async for tenant in _tenant(installation, managed=True):
        yield tenant


@pytest.fixture
async def plain(installation: Installation) -> AsyncIterator[Tenant]:
    """Make a namespace that nobody labelled; it is emptied afterwards."""
    async for tenant in _tenant(installation, managed=False):
        yield tenant


async def _tenant(installation: Installation, *, managed: bool) -> AsyncIterator[Tenant]:
    cluster = installation.cluster
    cluster.check()
    name = await cluster.make_namespace("team" if managed else "plain", MANAGED if managed else {})
    tenant = Tenant(installation, name)
    yield tenant
    await tenant.empty()
    await cluster.drop_namespace(name)
