"""`--schedulers` and `--drivers` mean to commands and page what they mean to the operator: what it was given is copied."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from apportion.__main__ import app
from apportion.cli.world.world import World
from apportion.web.observed import Observed
from apportion.web.waiting import queue_page
from tests.cli.worlds import Cluster, two_cards
from tests.observedcluster import request

Json = dict[str, Any]
OTHER = "volcano"


def pods() -> Cluster:
    """Return a cluster in which a pod of each scheduler waits for a card."""
    cluster = two_cards()
    cluster.wait_for("usual", request("gpu"))
    cluster.wait_for("other", request("gpu"), {"schedulerName": OTHER})
    return cluster


def reason(tmp_path: Path, cluster: Cluster, name: str, *options: str) -> str:
    """Return why a pod waits."""
    path = str(cluster.write(tmp_path / "w"))
    words = ["why", "pod", f"team/{name}", "--world", path, "-o", "json", *options]
    found: Json = json.loads(CliRunner().invoke(app, words).stdout)
    return str(found["reason"])


@pytest.mark.parametrize(
    ("options", "usual", "other"),
    [
        ([], "Fits", "UnknownScheduler"),
        ([f"--schedulers=default-scheduler,{OTHER}"], "Fits", "Fits"),
        (["--schedulers=default-scheduler", f"--schedulers= {OTHER},"], "Fits", "Fits"),
        ([f"--schedulers={OTHER}"], "UnknownScheduler", "Fits"),
    ],
)
def test_schedulers_are_those_that_the_operator_serves(
    tmp_path: Path, options: list[str], usual: str, other: str
) -> None:
    """The operator's list is whole: without `default-scheduler` in it pods of that one are given nothing."""
    cluster = pods()
    assert reason(tmp_path, cluster, "usual", *options) == usual
    assert reason(tmp_path, cluster, "other", *options) == other


def test_the_page_serves_the_schedulers_of_its_operator() -> None:
    """It said `Fits` of a pod about which the operator says `UnknownScheduler`."""
    observed = Observed(World([*pods().objects.values()], "1.37", frozenset({OTHER})))
    observed.refresh()
    rows = {row.pods: row.reason for row in queue_page(observed, 1).rows}
    assert rows == {("team/other",): "Fits", ("team/usual",): "UnknownScheduler"}


@pytest.mark.parametrize(
    "options", [["--drivers=a.example.com,b.example.com"], ["--drivers", "b.example.com"]]
)
def test_each_driver_is_one_of_agents(tmp_path: Path, options: list[str]) -> None:
    """Parameters for it are judged as the operator judges them."""
    cluster = two_cards()
    parameters = {"apiVersion": "example.com/v1", "kind": "Own"}
    config = {"opaque": {"driver": "b.example.com", "parameters": parameters}}
    cluster.claim("c", request("gpu"), config=[config])
    cluster.pod("p", "c")
    assert reason(tmp_path, cluster, "p") == "Fits"
    assert reason(tmp_path, cluster, "p", *options) == "RefusedConfiguration"


def test_allocate_takes_drivers_with_commas(tmp_path: Path) -> None:
    """As every command."""
    parameters = {"apiVersion": "example.com/v1", "kind": "Own"}
    devices = {
        "requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}],
        "config": [{"opaque": {"driver": "b.example.com", "parameters": parameters}}],
    }
    world = {
        "nodes": [{"name": "n"}],
        "classes": [{"metadata": {"name": "gpu"}, "spec": {}}],
        "claims": [{"metadata": {"name": "c"}, "spec": {"devices": devices}}],
    }
    (tmp_path / "w").write_text(json.dumps(world))
    words = ["allocate", "-f", str(tmp_path / "w")]
    assert CliRunner().invoke(app, words).exit_code == 0
    refused = CliRunner().invoke(app, [*words, "--drivers=a.example.com,b.example.com"])
    assert refused.exit_code == 2
    assert "claim c" in refused.stderr
