"""What people type: files and options that are wrong end each command with one sentence that names them, never with a trace."""

import json
from pathlib import Path

import pytest
import structlog
from typer.testing import CliRunner

from apportion.__main__ import app
from tests.cli.worlds import two_cards

POLICY = "kind: AllocationPolicy\nmetadata: {name: p}\nspec: "
WORKLOADS = """
kind: Deployment
metadata: {name: d, namespace: team}
spec:
  template:
    spec:
      initContainers:
      containers:
      - {name: main, resources: {limits: , requests: {nvidia.com/gpu: 1}}}
---
kind: JobSet
metadata: {name: j, namespace: team}
spec: {replicatedJobs: [{name: a, template: {spec: {}}}]}
"""
CLAIMED = """
kind: ResourceClaim
metadata: {name: c, namespace: team}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}
---
kind: Pod
metadata: {name: p, namespace: team}
spec: {containers: [main], resourceClaims: [{name: g, resourceClaimName: c}]}
"""
FILES = {
    "torn": "kind: [",
    "dated": "kind: Pod\nmetadata: {name: p, creationTimestamp: 2026-02-30}",
    "cyclic": "kind: Pod\nmetadata: &m {name: p, labels: *m}",
    "endless": "\n".join(["a: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40))]),
    "list": '{"kind": "List", "items": []}',
    "typed": POLICY + "{deviceClasses: {names: [gpu]}, strategy: Best}",
    "claimed": CLAIMED,
    "misspelt": "clames: []",
    "nothing": "nodes: []",
    "counted": "claims: [{metadata: {name: c}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu, cuont: 2}}]}}}]",
    "plain": "a: b",
    "worldly": json.dumps(
        {
            "nodes": [{"name": "n"}],
            "claims": [],
            "slices": [
                {
                    "metadata": {"name": "s"},
                    "spec": {
                        "driver": "d",
                        "nodeName": "n",
                        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
                        "devices": [{"name": "gpu-0", "capacity": {"memory": []}}],
                    },
                }
            ],
        }
    ),
    "listed": json.dumps(
        {
            "nodes": [{"name": "n"}],
            "claims": [
                {
                    "metadata": {"name": "c"},
                    "spec": {
                        "devices": {
                            "requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}],
                            "config": [{"opaque": {"driver": ["gpu.apportion.dev"], "parameters": {}}}],
                        }
                    },
                }
            ],
        }
    ),
    "grouped": "kind: Pod\nmetadata: {name: p, labels: !!set {a, b}}",
    "nameless": "kind: Deployment\nmetadata:\nspec: {}",
    "numbered": "kind: Deployment\nmetadata: {name: 7}\nspec: {}",
    "world": json.dumps({"nodes": [{"name": "n"}], "claims": []}),
}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("allocate -f torn", "neither JSON nor YAML"),
        ("allocate -f dated", "neither JSON nor YAML: day is out of range"),
        ("allocate -f cyclic", "an alias stands for something that it is part of"),
        ("fit -f cyclic --world list", "cyclic: an alias stands for something that it is part of"),
        ("migrate -f cyclic --world list", "an alias stands for something that it is part of"),
        ("fit -f endless --world list", "its aliases stand for more than 10,000,000 values"),
        ("allocate -f list", "a list of objects is no world; `apportion fit --world` reads it"),
        ("allocate -f misspelt", "error: clames: there is no such field; did you mean claims?"),
        ("allocate -f nothing", "error: claims: a world has a list of claims"),
        (
            "allocate -f counted",
            "claims[0].spec.devices.requests[0].exactly.cuont: there is no such field; did you mean count?",
        ),
        ("allocate -f worldly", "devices[0].capacity.memory: expected an object, found list"),
        (
            "allocate -f listed",
            "claims[0].spec.devices.config[0].opaque.driver: expected a string, found list",
        ),
        (
            "snapshot --anonymize --world grouped",
            "could not determine a constructor for the tag 'tag:yaml.org,2002:set'",
        ),
        ("migrate -f nameless --world list", "error: nameless: metadata.name: a Deployment has no name"),
        (
            "migrate -f numbered --world list",
            "numbered: Deployment: metadata.name: expected a string, found int",
        ),
        ("fit -f plain --world list", "error: plain: document 0: expected an object"),
        ("defrag plan --for plain --world list", "error: plain: document 0: expected an object"),
        ("migrate -f plain --world list", "error: plain: document 0: expected an object"),
        ("migrate -f torn --world list", "error: torn: neither JSON nor YAML"),
        ("free --world torn", "error: torn: neither JSON nor YAML"),
        ("allocate -f world --policy torn", "--policy torn: neither JSON nor YAML"),
        ("allocate -f world --policy dated", "--policy dated: neither JSON nor YAML"),
        ("allocate -f world --policy world", "--policy world: this is no AllocationPolicy"),
        ("allocate -f world --policy typed", "--policy typed: spec.strategy: "),
        ("free --world dated", "neither JSON nor YAML: day is out of range"),
        ("migrate -f dated --world list", "neither JSON nor YAML: day is out of range"),
        ("fit -f torn --world list", "torn: neither JSON nor YAML"),
        ("fit -f claimed --world list", "claimed: team/p: spec.containers[0]: expected an object, found str"),
        ("node prepare --claim-file dated", "dated: neither JSON nor YAML"),
        ("crds --out torn/crds", "--out torn/crds: Not a directory"),
        ("operator --health-port 99999", "--health-port"),
        ("agent --node-name n1 --health-port -1", "--health-port"),
    ],
)
def test_it_is_named_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, said: str
) -> None:
    """Exit status 2."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(app, words.split())
    assert isinstance(found.exception, SystemExit), found.exception
    assert found.exit_code == 2
    assert said in found.stderr


def test_what_is_null_is_absent_as_for_the_api_server(tmp_path: Path) -> None:
    """`limits:` with nothing below it is a common mistake, and none."""
    (tmp_path / "w").write_text(WORKLOADS)
    cluster = two_cards().write(tmp_path / "c")
    found = CliRunner().invoke(
        app, ["migrate", "-f", str(tmp_path / "w"), "--world", str(cluster), "-o", "json"]
    )
    assert isinstance(found.exception, SystemExit | None), found.exception
    assert [each["name"] for each in json.loads(found.stdout)["workloads"]] == ["d"]


@pytest.mark.parametrize("amount", ["-1", "1e30"])
@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_an_amount_that_is_no_number_of_devices_is_named(tmp_path: Path, amount: str, output: str) -> None:
    """A large one ended -o json with a trace, and a negative one passed for 1."""
    container = {"name": "m", "resources": {"limits": {"nvidia.com/gpu": amount, "memory": "1e30"}}}
    spec = {"template": {"spec": {"containers": [container]}}}
    (tmp_path / "d").write_text(json.dumps({"kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}))
    world = two_cards().write(tmp_path / "w")
    words = ["migrate", "-f", str(tmp_path / "d"), "--world", str(world), "-o", output]
    found = CliRunner().invoke(app, words)
    assert isinstance(found.exception, SystemExit), found.exception
    assert found.exit_code == 2
    said = "spec.containers[0].resources[nvidia.com/gpu]: Deployment default/d: "
    assert f"{said}{amount} is no number of devices" in found.stderr


def test_what_is_null_in_a_workload_of_a_world_is_absent_too(tmp_path: Path) -> None:
    """A file that a person has put together may have workloads beside the cluster, which ended with a trace."""
    world = two_cards().as_list()
    asked = {"limits": None, "claims": None, "requests": {"nvidia.com/gpu": 1}}
    pod = {"initContainers": None, "resourceClaims": None, "containers": [{"name": "m", "resources": asked}]}
    own = {"kind": "Deployment", "metadata": {"name": "d", "namespace": "team"}}
    world["items"].append({**own, "spec": {"replicas": None, "template": {"spec": pod}}})
    (tmp_path / "w").write_text(json.dumps(world))
    found = CliRunner().invoke(app, ["migrate", "-A", "--world", str(tmp_path / "w"), "-o", "json"])
    assert isinstance(found.exception, SystemExit | None), found.exception
    assert [each["name"] for each in json.loads(found.stdout)["workloads"]] == ["d"]


def test_a_node_whose_spec_is_null_can_be_added_to(tmp_path: Path) -> None:
    """It was read as one without, and a further one like it ended the command with a trace."""
    world = two_cards().as_list()
    for each in world["items"]:
        if each["kind"] == "Node":
            each |= {"spec": None, "metadata": {**each["metadata"], "labels": None}}
    (tmp_path / "w").write_text(json.dumps(world))
    words = ["free", "--world", str(tmp_path / "w"), "--add-nodes", "2 like n1", "-o", "json"]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 0, found.exception


def test_an_object_that_cannot_be_read_is_left_out_and_the_others_count(tmp_path: Path) -> None:
    """Also where nodes are taken away or added for the sake of the question; an object without a usable UID ends the command."""
    world = two_cards().as_list()
    for each in world["items"]:
        if each["kind"] == "ResourceSlice" and each["spec"]["nodeName"] == "n1":
            each["spec"]["devices"] = [1]
        if each["kind"] == "ResourceClaim":
            each["status"] = "none"
    path = tmp_path / "w"
    path.write_text(json.dumps(world))
    for options in ("--without-node n1", "--without-node n2", "--add-nodes=1\tlike\tn1"):
        found = CliRunner().invoke(app, ["free", "--world", str(path), *options.split(" ")])
        assert isinstance(found.exception, SystemExit | None), found.exception
        assert "left out: ResourceClaim team/held: status: expected an object, found str" in found.stderr
    structlog.reset_defaults()
    found = CliRunner().invoke(app, ["migrate", "-A", "--world", str(path), "-o", "json"])
    assert json.loads(found.stdout) == {"workloads": []}, "no log is on standard output"
    assert "left out: ResourceClaim team/held: " in found.stderr
    world["items"][0]["metadata"]["uid"] = {}
    path.write_text(json.dumps(world))
    found = CliRunner().invoke(app, ["free", "--world", str(path)])
    assert found.exit_code == 2
    assert "metadata.uid: expected a string, found dict" in found.stderr


@pytest.mark.parametrize(
    ("kind", "part", "key", "value", "said"),
    [
        ("ResourceClaim", "metadata", "namespace", 1, "metadata.namespace: expected a string, found int"),
        ("Pod", "metadata", "annotations", ["a"], "team/holder: metadata.annotations: expected an object"),
        ("Pod", "metadata", "ownerReferences", [1], "metadata.ownerReferences[0]: expected an object"),
        (
            "ResourceClaim",
            "metadata",
            "managedFields",
            {},
            "team/held: metadata.managedFields: expected a list",
        ),
        ("Pod", "spec", "containers", "main", "Pod team/holder: spec.containers: expected a list, found str"),
        ("Pod", "spec", "volumes", [None], "spec.volumes[0]: expected an object, found nothing"),
        (
            "Pod",
            "status",
            "conditions",
            1.5,
            "Pod team/holder: status.conditions: expected a list, found float",
        ),
    ],
)
@pytest.mark.parametrize("option", [None, "--anonymize"])
def test_an_object_that_no_snapshot_can_have_is_named(
    tmp_path: Path, kind: str, part: str, key: str, value: object, said: str, option: str | None
) -> None:
    """Somebody has edited the file."""
    world = two_cards().as_list()
    [each] = [each for each in world["items"] if each["kind"] == kind]
    each.setdefault(part, {})[key] = value
    path = tmp_path / "w"
    path.write_text(json.dumps(world))
    options = [option] if option is not None else []
    found = CliRunner().invoke(app, ["snapshot", *options, "--world", str(path)])
    assert (found.exit_code, found.stdout) == (2, "")
    assert said in found.stderr


def test_a_namespace_that_is_no_text_ends_every_command_with_one_sentence(tmp_path: Path) -> None:
    """As a UID that is none."""
    world = two_cards().as_list()
    for each in world["items"]:
        if each["kind"] == "ResourceClaim":
            each["metadata"]["namespace"] = ["team"]
    path = tmp_path / "w"
    path.write_text(json.dumps(world))
    for command in ("free", "status", "top", "snapshot"):
        found = CliRunner().invoke(app, [command, "--world", str(path)])
        assert found.exit_code == 2
        assert "ResourceClaim held: metadata.namespace: expected a string, found list" in found.stderr
