"""What `apportion migrate -o yaml` prints can run: a pod is made without a node, because one that is made with a node has no gate, and nobody allocates for it."""

from pathlib import Path

import pytest
import yaml

from tests.cli.migrating import Json, ask, container, rows, spec, workload


@pytest.mark.parametrize("node", ["n1", "n9"])
def test_a_pod_that_runs_is_printed_and_rehearsed_without_its_node(tmp_path: Path, node: str) -> None:
    """It finds a place also where its node is none of ours."""
    pod: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "runs", "namespace": "team"},
        "spec": spec(container(gpu="1"), nodeName=node),
    }
    *_, found = yaml.safe_load_all(ask(tmp_path, pod, output="yaml").stdout)
    assert found["kind"] == "Pod"
    assert "nodeName" not in found["spec"]
    [row] = rows(ask(tmp_path, pod))
    assert row["served"]


def test_a_template_that_names_a_node_is_left_out(tmp_path: Path) -> None:
    """That its author chose it is said, and not undone."""
    given = workload("Deployment", "tied", spec(container(gpu="1"), nodeName="n1"))
    [row] = rows(ask(tmp_path, given))
    assert row["blocked"] == [
        "spec.nodeName: nobody allocates for pods that are made with a node; use nodeSelector"
    ]
    assert list(yaml.safe_load_all(ask(tmp_path, given, output="yaml").stdout)) == []
