"""Selectors that cost more than one claim may spend, in a cluster that commands or the page are asked about: they are evaluated no further than by the operator."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from apportion.__main__ import app
from tests.cli.worlds import Cluster
from tests.observedcluster import GPU, request

ROUNDS = list(range(200))
LONG = f'"{"x" * 400}"'
COSTLY = f'{ROUNDS}.all(each, !{LONG}.contains({LONG.replace("x", "y")}) && device.attributes["{GPU}"].ix >= each - 200)'
"""Some 1,600 units in each of its rounds, on each device, which a look for a text spends in no time."""


def fleet() -> Cluster:
    """Return 120 devices that differ."""
    cluster = Cluster()
    cluster.device_class("gpu")
    for number in range(15):
        cluster.node(f"n{number}", cpu="64")
        devices = [
            {"name": f"gpu-{index}", "attributes": {"ix": {"int": 8 * number + index}}} for index in range(8)
        ]
        cluster.slice(f"n{number}", f"n{number}-devices", {"devices": devices}, 1)
    return cluster


@pytest.mark.slow
def test_the_reason_is_that_of_the_operators_event(tmp_path: Path) -> None:
    """It was `Fits` after an evaluation on each device, which takes hours in a large cluster, for one claim of the page's queue."""
    cluster = fleet()
    cluster.wait_for("c", request("gpu", expression=COSTLY))
    words = ["why", "pod", "team/c", "--world", str(cluster.write(tmp_path / "w"))]
    found = CliRunner().invoke(app, words, env={"COLUMNS": "500"})
    assert found.exit_code == 1, found.output
    assert "CostlySelector: claim team/c is not allocated: " in found.stdout
    assert "and one claim may spend 20000000" in found.stdout
