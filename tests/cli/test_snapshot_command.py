"""`apportion snapshot`: all that decisions need, nothing else, and no names where none are wanted."""

import json
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

from apportion.cli.answers.largest import largest
from apportion.cli.world.objects import contents_of
from apportion.cli.world.snapshot import snapshot
from apportion.cli.world.world import World
from apportion.cluster.kinds import PODS
from apportion.scheduling.waitingqueue import waiting_demands
from tests.cli.worlds import Cluster, profile_request, two_cards
from tests.observedcluster import request

app = typer.Typer()
app.command()(snapshot)
Json = dict[str, Any]


def taken(path: Path, *options: str) -> Json:
    """Return what the command writes about the cluster of a file."""
    result = CliRunner().invoke(app, ["--world", str(path), *options])
    assert result.exit_code == 0, result.stderr
    found: Json = json.loads(result.stdout)
    return found


def secretive() -> Cluster:
    """Return a cluster whose names say whose it is; a pod is tied to a node by name, and waits."""
    cluster = two_cards()
    for name in ("acme-alpha", "acme-beta"):
        cluster.node(name, **{"kubernetes.io/hostname": name})
        cluster.card(name)
    cluster.see(PODS, {
        "metadata": {"name": "acme-job", "namespace": "acme", "annotations": {"acme.example.com/owner": "acme-boss"}},
        "spec": {
            "containers": [{"name": "acme-main", "image": "acme/secret", "env": [{"name": "A", "value": "acme-password"}],
                            "resources": {"requests": {"cpu": "1"}}}],
            "resourceClaims": [{"name": "g", "resourceClaimName": "acme-claim"}],
            "nodeSelector": {"kubernetes.io/hostname": "acme-beta"},
        },
    })  # fmt: skip
    cluster.claim("acme-claim", profile_request("3g.40gb"), namespace="acme")
    held = cluster.claim("acme-held", request("gpu"), namespace="acme", uid="acme-uid-1")
    cluster.allocate(held, "acme-alpha", "gpu-0")
    return cluster


def test_a_snapshot_of_a_snapshot_is_the_same(tmp_path: Path) -> None:
    """Nothing is lost or made up, and the version of Kubernetes is kept."""
    first = taken(secretive().write(tmp_path / "w", version="1.36"))
    (tmp_path / "again").write_text(json.dumps(first))
    assert taken(tmp_path / "again") == first
    assert contents_of(tmp_path / "again")[1] == "1.36"
    assert World(*contents_of(tmp_path / "again")).snapshot.state.features.fractional_capacity_range is False


def test_what_decides_nothing_is_left_out(tmp_path: Path) -> None:
    """Passwords in the environment of a container are nobody's business."""
    text = json.dumps(taken(secretive().write(tmp_path / "w")))
    for word in ("acme-password", "acme/secret", "acme-boss", "acme-main"):
        assert word not in text
    assert "acme-job" in text


def test_without_names_nobody_is_named_and_the_answers_are_the_same(tmp_path: Path) -> None:
    """The pod that is tied to a node by name waits for its renamed node, and as much is left of every kind."""
    path = secretive().write(tmp_path / "w")
    found = taken(path, "--anonymize")
    assert "acme" not in json.dumps(found)
    named, unnamed = World(*contents_of(path)), World(found["items"], found["kubernetesVersion"])
    before, after = (largest(each.snapshot.state) for each in (named, unnamed))
    assert {kind: (left.left, left.most) for kind, left in before.items()} == {
        kind: (left.left, left.most) for kind, left in after.items()
    }
    [demand], _ = waiting_demands(unnamed.snapshot)
    [selected] = demand.pods[0].node_selector.values()
    held = {claim.allocation.node for claim in unnamed.snapshot.claims.values() if claim.allocation}
    assert selected in {node.name for node in unnamed.snapshot.nodes.values()} - held
    assert {node.name for node in unnamed.snapshot.nodes.values()} == {
        f"node-{number}" for number in range(1, 5)
    }


def test_an_object_without_a_name_ends_with_2(tmp_path: Path) -> None:
    """One sentence, with the field."""
    (tmp_path / "w").write_text('{"kind": "Node", "metadata": {}}')
    result = CliRunner().invoke(app, ["--world", str(tmp_path / "w")])
    assert result.exit_code == 2
    assert "metadata.name" in result.stderr
    assert "Traceback" not in result.stderr
