"""Workloads of a cluster that cannot be read are named and left out of `apportion migrate`: one tenant's keeps nobody from rehearsing the others."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from apportion.__main__ import app
from tests.cli.migrating import cluster, container, spec, workload

Json = dict[str, Any]


def jobset(template: Json) -> Json:
    """Return a JobSet: of what is inside its jobs the API server knows the form alone, by which a quantity may have such an exponent."""
    jobs = [{"name": "a", "template": {"spec": {"template": {"spec": template}}}}]
    metadata = {"name": "odd", "namespace": "other"}
    return {"kind": "JobSet", "metadata": metadata, "spec": {"replicatedJobs": jobs}}


@pytest.mark.parametrize("amount", ["1e1.5", "1e.5"])
def test_the_others_are_rehearsed(tmp_path: Path, amount: str) -> None:
    """Of a file each is of the person who asks, and the first that is broken ends the command."""
    odd = jobset(spec(container(gpu=amount)))
    good = workload("Deployment", "good", spec(container(gpu="1")))
    items = [odd, good, *cluster()]
    (tmp_path / "w").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    found = CliRunner().invoke(app, ["migrate", "-A", "--world", str(tmp_path / "w"), "-o", "json"])
    assert found.exit_code == 0, found.output
    assert [each["name"] for each in json.loads(found.stdout)["workloads"]] == ["good"]
    [line] = found.stderr.splitlines()
    assert line.startswith("left out: ")
    assert "JobSet other/odd[0]" in line
    (tmp_path / "f").write_text(json.dumps(odd))
    words = ["migrate", "-f", str(tmp_path / "f"), "--world", str(tmp_path / "w")]
    assert CliRunner().invoke(app, words).exit_code == 2
