"""A short chaos run: every boundary and a few random moments. `make chaos` is the long one."""

import csv
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from testbed.binaries import Binaries
from testbed.chaos.chaosrun import ChaosRun, RunOptions
from testbed.chaos.invariants import DOUBLED, LEAKED
from testbed.chaos.killpoints import boundaries
from testbed.chaos.nodesetup import has_rail
from testbed.components import APISERVER, ETCD
from testbed.controlplane import ControlPlane
from testbed.installation import install

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
async def cluster(binaries: Binaries) -> AsyncIterator[ControlPlane]:
    """Run a control plane of its own: nothing but the chaos run writes to it."""
    async with ControlPlane(binaries=binaries, components=(ETCD, APISERVER)) as running:
        await install(running)
        yield running


async def test_nothing_is_lost_wherever_the_agent_is_killed(cluster: ControlPlane, tmp_path: Path) -> None:
    """An agent is killed at every boundary, every kill has its row, and no invariant is violated."""
    report = tmp_path / "kills.csv"
    result = await ChaosRun(cluster, RunOptions(kills=12, seed=7, report=report)).run()
    assert result.good, result
    assert len(result.hit) == len(boundaries("nvml", network=has_rail("nvml")))
    assert result.kills == 12
    assert result.line().startswith("kills=12 leaked=0 doubled=0 killed_in_use=0 misdirected=0 seconds=")
    with report.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) >= result.kills + len(result.hit)
    assert all(row["before"].startswith("cut=") and row["after"].startswith("cut=") for row in rows)


async def test_simulated_hardware_survives_the_same(cluster: ControlPlane, tmp_path: Path) -> None:
    """The other backend, random moments only; the report as JSON lines."""
    report = tmp_path / "kills.jsonl"
    options = RunOptions(kills=4, seed=7, backend="simulated", nodes=1, boundaries=False, report=report)
    result = await ChaosRun(cluster, options).run()
    assert result.good, result
    assert [json.loads(line)["kind"] for line in report.read_text().splitlines()] == ["moment"] * 4


@pytest.mark.parametrize(("write", "kind"), [("Intent", LEAKED), ("Preparing", DOUBLED)])
async def test_a_run_with_one_journal_write_removed_fails(
    cluster: ControlPlane, write: str, kind: str
) -> None:
    """The invariants detect a real defect: without that write the product leaks or gives a device away twice."""
    result = await ChaosRun(cluster, RunOptions(kills=60, seed=7, nodes=1, lose=write, patience=2)).run()
    assert kind in {violation.kind for violation in result.violations}
    assert not result.good
    assert f"{kind}=0" not in result.line()
