"""What layouts want and have not cut yet, as the commands show it: by the name of the layout."""

import json
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

from apportion.cli.answers.free import free
from apportion.cli.answers.status import status
from apportion.cli.answers.who import who
from apportion.cli.answers.why import why
from tests.cli.worlds import Cluster, two_cards
from tests.observedcluster import request
from tests.partitions.layoutworld import publish

app = typer.Typer()
for command in (free, status, who, why):
    app.command(command.__name__)(command)


def answer(tmp_path: Path, cluster: Cluster, *words: str) -> Any:
    """Return the answer of a command as plain data."""
    path = cluster.write(tmp_path / "w")
    result = CliRunner().invoke(app, [*words, "--world", str(path), "-o", "json"])
    assert result.exit_code < 2, result.stderr
    return json.loads(result.stdout)


def halves() -> Cluster:
    """Return two cards, of which a claim has a half of the first; a layout wants a half of each and may change idle ones only."""
    cluster = two_cards()
    cluster.layout({"profile": "3g.40gb", "count": 1}, name="halves")
    return cluster


def test_a_claim_that_waits_for_a_layout_reads_its_name(tmp_path: Path) -> None:
    """The card of its node is not left whole."""
    cluster = halves()
    cluster.wait_for("whole", request("gpu"), {"nodeSelector": {"kubernetes.io/hostname": "n2"}})
    found = answer(tmp_path, cluster, "why", "claim", "team/whole")
    assert found["reason"] == "NotAllocated"
    assert ", held by PartitionLayout halves on n2" in found["message"]


def test_who_and_status_show_the_layout_as_the_holder(tmp_path: Path) -> None:
    """Only where it may change the card now."""
    cluster = halves()
    rows = answer(tmp_path, cluster, "who", "n2")["holders"]
    assert [(row["claim"], row["device"], row["note"]) for row in rows] == [
        (
            "PartitionLayout halves",
            "gpu.apportion.dev/n2/gpu-0-mig-3g40gb-9-0",
            "wanted by it and not cut yet",
        )
    ]
    assert [row["claim"] for row in answer(tmp_path, cluster, "who", "n1")["holders"]] == ["team/held"]
    shown = {row["node"]: row for row in answer(tmp_path, cluster, "status")["cards"]}
    assert (shown["n2"]["slices"], shown["n2"]["holders"]) == ("AAAA....", {"A": "PartitionLayout halves"})


def test_a_file_without_partitions_says_nothing_of_those_that_layouts_have(tmp_path: Path) -> None:
    """A person has put it together: nodes, slices and classes. What slices offer is left."""
    cluster = two_cards()
    publish(cluster, "n2", "gpu-0-mig-1g10gb-19-0-static")
    rows = answer(tmp_path, cluster, "free")["devices"]
    assert [row["left"] for row in rows if row["device"] == "mig"] == [1]
    assert not cluster.snapshot.partitions
