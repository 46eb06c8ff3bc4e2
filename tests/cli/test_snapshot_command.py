"""`apportion snapshot`: all that decisions need, nothing else, and no names where none are wanted."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from apportion.allocator.decision import Decision
from apportion.cli.answers.decisions import Decisions
from apportion.cli.answers.largest import largest
from apportion.cli.world.anonymous import anonymized
from apportion.cli.world.objects import contents_of
from apportion.cli.world.snapshot import snapshot
from apportion.cli.world.world import World
from apportion.cluster.kinds import PODS
from apportion.scheduling.demands.waitingqueue import waiting_demands
from tests.cli.worlds import Cluster, drawn_situation, profile_request, two_cards
from tests.observedcluster import GPU, request

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


@pytest.mark.slow
def test_a_snapshot_of_a_snapshot_is_the_same(tmp_path: Path) -> None:
    """Nothing is lost or made up, and the version of Kubernetes is kept."""
    first = taken(secretive().write(tmp_path / "w", version="1.36"))
    (tmp_path / "again").write_text(json.dumps(first))
    assert taken(tmp_path / "again") == first
    assert contents_of(tmp_path / "again")[1] == "1.36"
    assert (
        World(*contents_of(tmp_path / "again")[:2]).snapshot.state.features.fractional_capacity_range is False
    )


def test_what_decides_nothing_is_left_out(tmp_path: Path) -> None:
    """Passwords in the environment of a container are nobody's business."""
    text = json.dumps(taken(secretive().write(tmp_path / "w")))
    for word in ("acme-password", "acme/secret", "acme-boss", "acme-main"):
        assert word not in text
    assert "acme-job" in text


def test_a_pod_that_is_resized_counts_as_before(tmp_path: Path) -> None:
    """By what kubelet reports of its containers, whose names are left out."""
    cluster, wanted = two_cards(), {"resources": {"requests": {"cpu": "99"}}}
    has = {"allocatedResources": {"cpu": "2"}}
    raw = {
        "metadata": {"name": "acme-resized", "namespace": "acme"},
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "acme-main", **wanted}],
            "initContainers": [{"name": "acme-side", "restartPolicy": "Always", **wanted}],
        },
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": "acme-main", "imageID": "acme", **has}],
            "initContainerStatuses": [{"name": "acme-side", **has, "allocatedResources": {"cpu": "1"}}],
            "conditions": [{"type": "PodResizePending", "reason": "Infeasible", "message": "acme"}],
        },
    }
    cluster.see(PODS, raw)
    path = tmp_path / "again"
    path.write_text(json.dumps(taken(cluster.write(tmp_path / "w"))))
    assert "acme-main" not in path.read_text()
    assert "imageID" not in path.read_text()
    pods = World(*contents_of(path)[:2]).snapshot.pods.values()
    assert [pod.requests for pod in pods if pod.name == "acme-resized"] == [{"cpu": 3000}]
    (tmp_path / "without").write_text(json.dumps(taken(path, "--anonymize")))
    pods = World(*contents_of(tmp_path / "without")[:2]).snapshot.pods.values()
    assert {"cpu": 3000} in [pod.requests for pod in pods]


def test_without_names_nobody_is_named_and_the_answers_are_the_same(tmp_path: Path) -> None:
    """The pod that is tied to a node by name waits for its renamed node, and as much is left of every kind."""
    path = secretive().write(tmp_path / "w")
    found = taken(path, "--anonymize")
    assert "acme" not in json.dumps(found)
    named, unnamed = World(*contents_of(path)[:2]), World(found["items"], found["kubernetesVersion"])
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


def test_values_of_labels_and_what_tells_devices_apart_are_hidden_alike_everywhere(tmp_path: Path) -> None:
    """A node selector, an expression and a selector of CEL still mean the node and the device that they meant."""
    cluster = secretive()
    uuid, serial = "GPU-5b6c7d8e-0000-1111-2222-333344445555", "ACME-0042"
    for name, rack in (("acme-alpha", "acme-rack-1"), ("acme-beta", "acme-rack-2")):
        cluster.node(
            name, **{"kubernetes.io/hostname": name, "rack": rack, "slot": "7", "kubernetes.io/arch": "amd64"}
        )
    attributes = {"type": {"string": "gpu"}, "uuid": {"string": uuid}, "serial": {"string": serial}}
    cluster.slice(
        "acme-beta", "more", {"devices": [{"name": "gpu-9", "attributes": attributes}]}, 1, "acme-beta/more"
    )
    own = f'device.attributes["{GPU}"]'
    wanted = f'"uuid" in {own} && {own}.uuid == "{uuid}" && {own}.serial in ["{serial}"]'
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["acme-rack-2"]}]}]}}}  # fmt: skip
    cluster.claim("tied", request("gpu", expression=wanted))
    cluster.pod(
        "tied", "tied", spec={"affinity": affinity, "nodeSelector": {"rack": "acme-rack-2", "slot": "7"}}
    )
    found = taken(cluster.write(tmp_path / "w"), "--anonymize")
    text = json.dumps(found)
    assert [word for word in ("acme", "5b6c7d8e", serial) if word in text] == []
    assert '"slot": "7"' in text
    assert "amd64" in text
    assert "GPU-00000000" in text
    world = World(found["items"], found["kubernetesVersion"])
    decisions = Decisions(world.snapshot, world.holds)
    [demand] = [each for each in decisions.waiting if "GPU-00000000" in str(each.claims[0])]
    answer = decisions.decide(demand)
    assert isinstance(answer, Decision)
    assert [result.device.name for result in answer.allocations[0].results] == ["gpu-9"]


@pytest.mark.parametrize("seed", range(20))
def test_decisions_without_names_are_the_same(seed: int) -> None:
    """What waits is served by the same devices of the same node, or refused for the same reason."""
    objects = [*drawn_situation(random.Random(seed)).objects.values()]  # noqa: S311 - a test that can be repeated
    before, after = (_decided(World(each)) for each in (objects, anonymized(objects)))
    assert before == after


def _decided(world: World) -> list[object]:
    """Return the answer to each demand, with the number of its node."""
    decisions = Decisions(world.snapshot, world.holds)
    numbers = {key.name: number for number, key in enumerate(world.of_kind("Node"))}
    found: list[object] = []
    for demand in decisions.waiting:
        answer = decisions.decide(demand)
        if isinstance(answer, Decision):
            devices = [result.device.name for each in answer.allocations for result in each.results]
            found.append((numbers[answer.node], devices))
        else:
            found.append(answer.name)
    return found


def test_an_object_without_a_name_ends_with_2(tmp_path: Path) -> None:
    """One sentence, with the field."""
    (tmp_path / "w").write_text('{"kind": "Node", "metadata": {}}')
    result = CliRunner().invoke(app, ["--world", str(tmp_path / "w")])
    assert result.exit_code == 2
    assert "metadata.name" in result.stderr
    assert "Traceback" not in result.stderr


def test_of_two_objects_of_one_name_the_later_counts() -> None:
    """A file may have an object twice, and the later may be of an older version or made anew, with another UID."""

    def a_class(uid: str, version: str, label: str) -> Json:
        metadata = {"name": "gpu", "uid": uid, "resourceVersion": version, "labels": {"own": label}}
        return {"kind": "DeviceClass", "metadata": metadata, "spec": {}}

    world = World([a_class("a", "5", "first"), a_class("a", "4", "older"), a_class("b", "9", "anew")])
    assert [each.labels["own"] for each in world.snapshot.classes.values()] == ["anew"]
    world.put(a_class("b", "8", "older"))
    assert [each.labels["own"] for each in world.snapshot.classes.values()] == ["older"]
    assert world.snapshot.state.classes["gpu"].labels["own"] == "older"
