"""Files of a cluster into which a person has written what no API server sends: the object is left out by name, and all others count."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from apportion.__main__ import app
from apportion.cluster.kinds import NAMESPACES, QUOTAS
from tests.cli.worlds import two_cards
from tests.observedcluster import request

KEYED = (
    "kind: Pod\nmetadata: {name: p, namespace: team, annotations: {true: no, 7: x}}\nspec: {containers: []}"
)


@pytest.mark.parametrize(
    ("amount", "said"),
    [
        ("80Gi", ".memory: expected an object, found str"),
        (["80Gi"], ".memory: expected an object, found list"),
        (None, "[memory].value: missing"),
    ],
)
def test_a_capacity_that_is_no_object_is_named(tmp_path: Path, amount: object, said: str) -> None:
    """The API has `{value: 80Gi}` there: `select` says so of the device, other commands leave out the slice."""
    device = {"driver": "d", "name": "gpu-0", "capacity": {"memory": amount}}
    (tmp_path / "d").write_text(json.dumps([device]))
    found = CliRunner().invoke(app, ["select", "-e", "true", "-f", str(tmp_path / "d"), "-o", "json"])
    assert isinstance(found.exception, SystemExit | None), found.exception
    assert f"capacity{said}" in found.stdout
    world = two_cards().as_list()
    for each in world["items"]:
        if each["kind"] == "ResourceSlice" and each["spec"].get("devices"):
            each["spec"]["devices"][0]["capacity"] = {"memory": amount}
    (tmp_path / "w").write_text(json.dumps(world))
    found = CliRunner().invoke(app, ["free", "--world", str(tmp_path / "w")])
    assert isinstance(found.exception, SystemExit | None), found.exception
    assert f"spec.devices[0].capacity{said}" in found.stderr


def test_keys_of_yaml_that_are_no_text_are_text_as_for_kubectl(tmp_path: Path) -> None:
    """`true: no` and `7: x` are what people forget to put into quotes."""
    (tmp_path / "w").write_text(KEYED)
    for options in ((), ("--anonymize",)):
        found = CliRunner().invoke(app, ["snapshot", *options, "--world", str(tmp_path / "w")])
        assert found.exception is None
        assert json.loads(found.stdout)["items"][0]["kind"] == "Pod"


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"spec": {"containers": [{"name": ["main"]}]}}, "spec.containers[0].name: expected a string, found list"),
        (
            {"status": {"containerStatuses": [{"name": {}}], "conditions": [
                {"type": "PodResizePending", "reason": "Infeasible"}]}},
            "status.containerStatuses[0].name: expected a string, found dict",
        ),
    ],
)  # fmt: skip
def test_a_container_whose_name_is_no_text_leaves_out_its_pod(
    tmp_path: Path, part: dict[str, object], said: str
) -> None:
    """As any other field of another type."""
    world = two_cards().as_list()
    [pod] = [each for each in world["items"] if each["kind"] == "Pod"]
    pod |= {"spec": {}, **part}
    (tmp_path / "w").write_text(json.dumps(world))
    found = CliRunner().invoke(app, ["free", "--world", str(tmp_path / "w")])
    assert isinstance(found.exception, SystemExit | None), found.exception
    assert f"left out: Pod team/holder: {said}" in found.stderr


def test_a_resource_version_of_thousands_of_digits_is_none(tmp_path: Path) -> None:
    """Python reads no such number; somebody who edits a file may write it."""
    world = two_cards().as_list()
    for each in world["items"]:
        each["metadata"]["resourceVersion"] = "9" * 5000
    (tmp_path / "w").write_text(json.dumps(world))
    for command in ("free", "status"):
        found = CliRunner().invoke(app, [command, "--world", str(tmp_path / "w")])
        assert isinstance(found.exception, SystemExit | None), found.exception
        assert found.exit_code == 0


@pytest.mark.parametrize("command", ["status", "top", "free"])
def test_an_empty_name_is_none(tmp_path: Path, command: str) -> None:
    """Of a layout, whose partitions are held by it, it ended the command with a stack trace."""
    cluster = two_cards()
    cluster.layout()
    world = cluster.as_list()
    [layout] = [each for each in world["items"] if each["kind"] == "PartitionLayout"]
    layout["metadata"]["name"] = ""
    (tmp_path / "w").write_text(json.dumps(world))
    found = CliRunner().invoke(app, [command, "--world", str(tmp_path / "w")])
    assert isinstance(found.exception, SystemExit), found.exception
    assert (found.exit_code, found.stderr) == (2, "error: metadata.name: a PartitionLayout has no name\n")


def test_a_limit_is_raised_beside_an_entry_that_cannot_be_read(tmp_path: Path) -> None:
    """The quota counts as far as it can be read, and `why` tries the limit that is in the way."""
    cluster = two_cards()
    cluster.see(NAMESPACES, {"metadata": {"name": "team"}})
    resources = [7, {"name": "gpus", "deviceClass": "gpu", "limit": 0}]
    cluster.see(
        QUOTAS, {"metadata": {"name": "q"}, "spec": {"namespaceSelector": {}, "resources": resources}}
    )
    cluster.wait_for("whole", request("gpu"))
    words = ["why", "pod", "team/whole", "--world", str(cluster.write(tmp_path / "w"))]
    found = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    assert isinstance(found.exception, SystemExit), found.exception
    assert "ExceedsLimit" in found.stdout
