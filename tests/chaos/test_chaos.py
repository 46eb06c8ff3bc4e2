"""The storm itself, short: every boundary and a few random moments. The long one is `make chaos`."""

import csv
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from testbed.binaries import Binaries
from testbed.chaos.blows import CALLS, STEPS
from testbed.chaos.judge import DOUBLED, LEAKED
from testbed.chaos.storm import Plan, Storm
from testbed.components import APISERVER, ETCD
from testbed.controlplane import ControlPlane
from testbed.installation import install

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
async def cluster(binaries: Binaries) -> AsyncIterator[ControlPlane]:
    """Run a control plane of its own: nothing but the storm writes to it."""
    async with ControlPlane(binaries=binaries, components=(ETCD, APISERVER)) as running:
        await install(running)
        yield running


async def test_nothing_is_lost_whatever_the_agent_is_killed_in(cluster: ControlPlane, tmp_path: Path) -> None:
    """Every boundary is struck, every kill has its row, and no promise is broken."""
    report = tmp_path / "kills.csv"
    outcome = await Storm(cluster, Plan(kills=12, seed=7, report=report)).run()
    assert outcome.good, outcome
    assert len(outcome.struck) == len(STEPS) + 2 * len(CALLS)
    assert outcome.kills == 12
    assert outcome.line().startswith("kills=12 leaked=0 doubled=0 killed_in_use=0 seconds=")
    with report.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) >= outcome.kills + len(outcome.struck)
    assert all(row["before"].startswith("cut=") and row["after"].startswith("cut=") for row in rows)


async def test_simulated_hardware_survives_the_same(cluster: ControlPlane, tmp_path: Path) -> None:
    """The other backend, random moments only; the report as JSON lines."""
    report = tmp_path / "kills.jsonl"
    plan = Plan(kills=4, seed=7, backend="simulated", nodes=1, boundaries=False, report=report)
    outcome = await Storm(cluster, plan).run()
    assert outcome.good, outcome
    assert [json.loads(line)["kind"] for line in report.read_text().splitlines()] == ["moment"] * 4


@pytest.mark.parametrize(("write", "kind"), [("Intent", LEAKED), ("Preparing", DOUBLED)])
async def test_a_run_with_one_journal_write_removed_fails(
    cluster: ControlPlane, write: str, kind: str
) -> None:
    """What the judge is good for: without that write the product is broken, and he sees it."""
    outcome = await Storm(cluster, Plan(kills=60, seed=7, lose=write, patience=2)).run()
    assert kind in {verdict.kind for verdict in outcome.verdicts}
    assert not outcome.good
    assert f"{kind}=0" not in outcome.line()
