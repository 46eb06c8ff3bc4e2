"""One installation for all tests of this folder: five simulated nodes, the operator and agents with their own rights."""

from collections.abc import AsyncIterator, Iterator

import pytest

from testbed.binaries import Binaries
from testbed.controlplane import ControlPlane
from testbed.demo.nodes import DEMO_MANIFESTS, demo_nodes
from testbed.installation import Installation
from tests.e2e.tenant import FURTHER_DRIVERS, LEASE, MANAGED, Tenant, serving

_TAIL = 60
"""Lines of each log that a failed test shows."""


@pytest.fixture(scope="session")
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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Show what operator and agents said last, when a test failed."""
    report = yield
    installed = getattr(item, "funcargs", {}).get("installation")
    if isinstance(installed, Installation) and report.failed:
        for program in (*installed.operators, *installed.agents.values()):
            lines = program.log.read_text(errors="replace").splitlines() if program.log.exists() else []
            report.sections.append((f"log of {program.name}", "\n".join(lines[-_TAIL:])))
    return report
