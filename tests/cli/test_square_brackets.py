"""Square brackets in what tables show, as in names of parts and in what people write: they are text, and no orders to what draws the table."""

import json
from pathlib import Path

from typer.testing import CliRunner

from apportion.__main__ import app
from tests.cli.migrating import ask, container, spec, workload


def test_leader_and_workers_have_different_names(tmp_path: Path) -> None:
    """Both had that of their LeaderWorkerSet alone."""
    inside = {
        "size": 2,
        "leaderTemplate": {"spec": spec(container(gpu="1"))},
        "workerTemplate": {"spec": spec(container(gpu="1"))},
    }
    found = {
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "l", "namespace": "team"},
        "spec": {"replicas": 1, "leaderWorkerTemplate": inside},
    }
    drawn = ask(tmp_path, found, output="table").stdout
    assert "LeaderWorkerSet team/l[leaderTemplate]" in drawn
    assert "LeaderWorkerSet team/l[workerTemplate]" in drawn


def test_a_field_in_square_brackets_is_in_the_reason(tmp_path: Path) -> None:
    """And what looks like the end of a style, which ended the command with a stack trace."""
    made = workload("Deployment", "d[/b]", spec(container("a[red]", **{"nvidia.com/mig-1g.5gb.shared": "1"})))
    result = ask(tmp_path, made, output="table")
    assert isinstance(result.exception, SystemExit), result.exception
    assert "Deployment team/d[/b]" in result.stdout
    assert "container a[red]: nvidia.com/mig-1g.5gb.shared" in result.stdout


def test_so_it_is_offline(tmp_path: Path) -> None:
    """Names of claims, and of the node in the title."""
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    slice_spec = {
        "driver": "d.example.com",
        "nodeName": "n[/b]",
        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0"}],
    }
    world = {
        "nodes": [{"metadata": {"name": "n[/b]"}}],
        "classes": [{"metadata": {"name": "gpu"}, "spec": {}}],
        "slices": [{"metadata": {"name": "s"}, "spec": slice_spec}],
        "claims": [{"metadata": {"name": "c[/b]"}, "spec": {"devices": {"requests": [request]}}}],
    }
    (tmp_path / "w").write_text(json.dumps(world))
    result = CliRunner().invoke(app, ["allocate", "-f", str(tmp_path / "w")], env={"COLUMNS": "200"})
    assert result.exception is None, result.exception
    assert "node n[/b]" in result.stdout
    assert "c[/b]" in result.stdout
