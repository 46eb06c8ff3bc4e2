"""`apportion migrate` by the rights of a person who may view the cluster, where JobSets and LeaderWorkerSets are not installed."""

from contextlib import AbstractContextManager
from pathlib import Path

import orjson
import pytest
import yaml
from typer.testing import CliRunner

from apportion.__main__ import app
from tests.cli.answeringserver import answering

EMPTY = {"metadata": {"resourceVersion": "1"}, "items": []}
ADDED = ("jobset.x-k8s.io", "leaderworkerset.x-k8s.io")


def serving(*forbidden: str) -> AbstractContextManager[str]:
    """Serve a cluster without objects that refuses what has one of these words in its path; returns the address."""
    said = {"kind": "Status", "status": "Failure", "message": "no right to list it", "code": 403}
    version = {"major": "1", "minor": "37", "gitVersion": "v1.37.0"}

    def answer(path: str) -> tuple[int, bytes]:
        if any(word in path for word in forbidden):
            return 403, orjson.dumps(said)
        return 200, orjson.dumps(version if "/version" in path else EMPTY)

    return answering(answer)


def kubeconfig(path: Path, server: str) -> Path:
    """Write a kubeconfig that leads there."""
    raw = {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(raw))
    return path


@pytest.mark.parametrize("option", [["-A"], ["-n", "team"]])
def test_kinds_that_may_not_even_be_served_are_left_out_and_named(tmp_path: Path, option: list[str]) -> None:
    """The API server says 403 before it says 404: a role that has no rule for them ended the command."""
    with serving(*ADDED) as server:
        config = kubeconfig(tmp_path / "k", server)
        found = CliRunner().invoke(app, ["migrate", *option, "--kubeconfig", str(config)])
    assert found.exit_code == 0, found.output
    assert "no workload asks for devices of a device plugin" in found.stdout
    lines = found.stderr.splitlines()
    assert [line.split(": ")[:2] for line in lines] == [
        ["left out", f"{each}s.{group}"]
        for each, group in zip(("jobset", "leaderworkerset"), ADDED, strict=True)
    ]
    assert all("403 no right to list it" in line for line in lines)


def test_what_every_cluster_has_must_be_readable(tmp_path: Path) -> None:
    """Pods that are not seen would leave more room than there is."""
    with serving("/deployments") as server:
        config = kubeconfig(tmp_path / "k", server)
        found = CliRunner().invoke(app, ["migrate", "-A", "--kubeconfig", str(config)])
    assert found.exit_code == 2
    assert "/deployments: 403" in found.stderr
