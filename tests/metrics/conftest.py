"""A real Prometheus that has scraped a real run: operator, an agent, claims that were served, wait, and never can be."""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from testbed.binaries import Binaries
from testbed.binaries.debian import unpacked
from testbed.controlplane import ControlPlane
from testbed.errors import Unavailable
from testbed.eventually import eventually
from testbed.installation import Installation, SimulatedNode
from testbed.ports import free_ports
from testbed.prometheus import Prometheus
from tests.clients import silent
from tests.e2e.quotas import quota
from tests.e2e.tenant import GPU, LEASE, MANAGED, MIG, PATIENCE, Tenant, claim, pod, profile, request, serving
from tests.metrics.monitoring import monitors, rules

__all__ = ["silent"]
SCRAPES = 3.0
"""Seconds of scrapes after the last change, so that rates have two of them, and rules were evaluated."""
SETTLED = 'sum(apportion_partitions{phase="Idle"}) == 1 and sum(apportion_agent_claims) == 2'
"""True when the partition whose claim has ended is idle."""
ANSWERED = "min(min_over_time(up[3s])) == 1"
"""True when no target has been silent for three scrapes: on a busy machine an answer may take longer than the second that a scrape has, and what the target
said before counts no longer."""
COMMITTED = 2.0
"""Seconds after which nothing is added to a moment: a scrape that began then has ended."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What a Prometheus knows of a moment at which every target had answered."""

    prometheus: Prometheus
    at: float

    async def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the samples of an expression. Raises QueryError."""
        return await self.prometheus.query(expression, self.at)

    async def names(self) -> frozenset[str]:
        """Return the names of all metrics that were scraped."""
        return await self.prometheus.names()

    async def rules(self) -> list[dict[str, Any]]:
        """Return the rules as they were evaluated while every target answered."""

        async def found() -> list[dict[str, Any]]:
            evaluated = await self.prometheus.rules()
            return evaluated if await self.prometheus.query(ANSWERED) else []

        return await eventually(found)


@dataclass(frozen=True, slots=True)
class Scraped:
    """A Prometheus, and what its targets say now."""

    prometheus: Moment
    texts: dict[str, str]
    """By job."""


@pytest.fixture(scope="session")
async def prometheus_programs() -> dict[str, Path]:
    """Give prometheus and promtool of Debian's package."""
    try:
        programs = (await unpacked("prometheus")) / "usr/bin"
    except Unavailable as error:
        pytest.skip(str(error))
    return {name: programs / name for name in ("prometheus", "promtool")}


@pytest.fixture(scope="package")
async def scraped(
    binaries: Binaries, prometheus_programs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Scraped]:
    """Run an installation on which everything happens that expressions ask for, under the eyes of Prometheus."""
    [port] = free_ports(1)
    cards = [{"model": "H100-80GB", "count": 2, "driverVersion": "550.90.7", "cudaDriverVersion": "12.4.0"}]
    async with (
        ControlPlane(binaries=binaries) as cluster,
        Installation(
            cluster,
            [SimulatedNode("h100", {"cards": cards})],
            operator_options=LEASE,
            agent_options=("--health-port", str(port)),
        ) as installation,
    ):
        await serving(installation)
        ports = {"apportion-operator": installation.operator_ports, "apportion-agent": [port]}
        folder = tmp_path_factory.mktemp("prometheus")
        program = prometheus_programs["prometheus"]
        async with Prometheus(program, folder, monitors(), ports, rules()) as prometheus:
            await _happen(installation)
            await eventually(lambda: prometheus.query(SETTLED), within=PATIENCE)
            settled = time.time()

            async def moment() -> float | None:
                at = time.time() - COMMITTED
                enough = at > settled + SCRAPES and await prometheus.query(f"{ANSWERED} and {SETTLED}", at)
                return at if enough else None

            at = await eventually(moment)
            texts = {job: await _read(numbers[0]) for job, numbers in ports.items()}
            yield Scraped(Moment(prometheus, at or 0.0), texts)


async def _happen(installation: Installation) -> None:
    """Serve a partition and a whole card, keep a partition idle, and leave claims waiting for two reasons."""
    cluster = installation.cluster
    name = await cluster.make_namespace("team", {**MANAGED, "team": "seen"})
    await cluster.api.create(
        *quota("seen", {"name": "gpus", "deviceClass": GPU, "guaranteed": "2", "limit": "16"}, team="seen")
    )
    tenant = Tenant(installation, name)
    wanted = {
        "whole": request(GPU),
        "part": request(MIG, profile("1g.10gb")),
        "kept": request(MIG, profile("2g.20gb")),
        "many": request(GPU, count=3),
        "typo": request("gpus.apportion.dev"),
    }
    for each, asked in wanted.items():
        await tenant.make(claim(each, asked))
        await tenant.make(pod(each, each))
        if each == "whole":
            await tenant.running(each)  # before somebody has parts of both cards
    await tenant.running("part", "kept")
    for kind in ("Pod", "ResourceClaim"):
        await tenant.delete(kind, "kept")
    await tenant.event("many", "NotAllocated")
    await tenant.event("typo", "UnknownClass")


async def _read(port: int) -> str:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/metrics") as response,
    ):
        return await response.text()
