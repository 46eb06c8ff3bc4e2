"""One installation with the web page for all tests of this folder: two replicas, two simulated nodes, pods that run and pods that wait."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
from playwright.async_api import Browser, Page, expect

from testbed.binaries import Binaries
from testbed.controlplane import ControlPlane
from testbed.demo.nodes import ascend, h100
from testbed.errors import Unavailable
from testbed.eventually import eventually
from testbed.installation import Installation
from tests.e2e.replicas import both_ready
from tests.e2e.tenant import (
    GPU,
    LEASE,
    MANAGED,
    MIG,
    SLICES,
    VNPU,
    Tenant,
    claim,
    device_slice,
    pod,
    profile,
    request,
    serving,
)
from tests.web.browser import axe, running_browser

# A page renews itself every five seconds, and browser, API server and operators share two cores.
expect.set_options(timeout=30_000)

MANIFESTS = Path(__file__).with_name("manifests")
SCRIPT = "<script>document.title='broken into'</script>"
"""What must be shown as text wherever somebody may write it."""
RUNNING = {
    "train": request(GPU, count=2),
    "serve": request(MIG, profile("3g.40gb")),
    "small-a": request(MIG, profile("1g.10gb")),
    "small-b": request(MIG, profile("2g.20gb")),
    "infer": request(VNPU),
}
"""What pods of the same name have."""


@dataclass(frozen=True, slots=True)
class Site:
    """The page of each replica, about a cluster in which something runs and something waits."""

    installation: Installation
    team: Tenant
    control_plane: ControlPlane

    def url(self, path: str = "/", replica: int = 0) -> str:
        """Return the address of a page."""
        return f"http://localhost:{self.installation.web_ports[replica]}{path}"


@pytest.fixture(scope="package")
async def site(binaries: Binaries) -> AsyncIterator[Site]:
    """Install, and let pods run and wait."""
    nodes = [h100("gpu-a"), ascend("npu-a", "310P")]
    async with (
        ControlPlane(binaries=binaries) as cluster,
        Installation(
            cluster, nodes, operators=2, operator_options=LEASE, manifests=MANIFESTS, web=True
        ) as installed,
    ):
        await serving(installed)
        await both_ready(installed)
        # A driver of others publishes a card whose model is no name.
        attributes = {"productName": {"string": SCRIPT}, "type": {"string": "gpu"}}
        await cluster.api.create(
            SLICES, device_slice("others", "gpu.apportion.dev", {"name": "odd", "attributes": attributes})
        )
        team = Tenant(installed, await cluster.make_namespace("team", MANAGED))
        for name, asked in RUNNING.items():
            await team.make(claim(name, asked))
            await team.make(pod(name, name))
        await team.make(claim("much", request(GPU, count=12)))
        await team.make(pod("greedy", "much"))
        await team.make(claim("odd", request(GPU, f'device.attributes["a.b"].c == "{SCRIPT}" && false')))
        await team.make(pod("odd", "odd"))
        await team.running(*RUNNING)
        await team.event("much", "NotAllocated")
        made = Site(installed, team, cluster)
        await _answering(made)
        yield made


async def _answering(site: Site) -> None:
    """Wait until the page of each replica has listed the cluster: until then it answers 503."""
    async with aiohttp.ClientSession() as session:

        async def statuses() -> list[int]:
            found = []
            for replica, _ in enumerate(site.installation.web_ports):
                try:
                    async with session.get(site.url(replica=replica)) as answer:
                        found.append(answer.status)
                except aiohttp.ClientError:
                    found.append(0)
            return found

        await eventually(statuses, lambda found: set(found) == {200})


@pytest.fixture(scope="package")
async def browser() -> AsyncIterator[Browser]:
    """Run Chromium; tests are skipped where it cannot be had."""
    try:
        async with running_browser() as found:
            yield found
    except Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
async def checker() -> str:
    """Give axe-core; tests are skipped where it cannot be had."""
    try:
        return await axe()
    except Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture
async def page(browser: Browser) -> AsyncIterator[Page]:
    """Open a tab, and see that nothing went wrong in it."""
    context = await browser.new_context(viewport={"width": 1280, "height": 900})
    tab = await context.new_page()
    wrong: list[str] = []
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    yield tab
    await context.close()
    assert wrong == []
