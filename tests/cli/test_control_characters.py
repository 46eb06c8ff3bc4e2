"""Control characters in what tenants write: they are orders to the terminal of who asks why something waits, and are shown as what they are."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from apportion.__main__ import app
from apportion.cli.terminal import visible
from tests.cli.migrating import ask, container, spec, workload
from tests.cli.worlds import Cluster, two_cards
from tests.observedcluster import GPU, request

Json = dict[str, Any]
ORDERS = "\x1b]52;c;AAAA\x07\x9b2J\x7f\r"
"""Fills the clipboard, clears the screen, goes back to the beginning of the line."""


def by_selector(cluster: Cluster) -> None:
    """A selector that the API server takes, and that fails on each device."""
    key = ORDERS.encode("unicode_escape").decode()
    cluster.wait_for("c", request("gpu", expression=f"{{'a': 1}}['{key}'] == 1"))


def by_parameters(cluster: Cluster) -> None:
    """A field that no parameters have; what is opaque the API server takes as it is."""
    parameters = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", ORDERS: 1}
    cluster.claim("c", request("gpu"), config=[{"opaque": {"driver": GPU, "parameters": parameters}}])
    cluster.pod("c", "c")


def by_scheduler(cluster: Cluster) -> None:
    """The API server takes any name."""
    cluster.wait_for("c", request("gpu"), {"schedulerName": f"other{ORDERS}"})


def are_harmless(text: str) -> bool:
    return not any(each != "\n" and (ord(each) < 32 or 127 <= ord(each) < 160) for each in text)


@pytest.mark.parametrize("make", [by_selector, by_parameters, by_scheduler])
def test_why_shows_them(tmp_path: Path, make: Callable[[Cluster], None]) -> None:
    """As Python writes them."""
    cluster = two_cards()
    make(cluster)
    path = str(cluster.write(tmp_path / "w"))
    words = ["why", "pod", "team/c", "--world", path]
    found = CliRunner().invoke(app, words, env={"COLUMNS": "500"})
    assert isinstance(found.exception, SystemExit), found.exception
    assert are_harmless(found.stdout), found.stdout
    assert r"\x1b]52;c;AAAA\x07\x9b2J\x7f" in found.stdout
    plain = json.loads(CliRunner().invoke(app, [*words, "-o", "json"]).stdout)
    assert ORDERS in plain["message"]


def test_so_does_what_is_said_of_an_object_that_cannot_be_read(tmp_path: Path) -> None:
    """On standard error, of every command."""
    cluster = two_cards()
    cluster.claim("c", request("gpu"), config=[{"opaque": {"driver": GPU, "parameters": {ORDERS: 1}}}])
    world = cluster.as_list()
    for each in world["items"]:
        if each["metadata"]["name"] == "c":
            each["spec"]["devices"]["requests"][0]["exactly"]["capacity"] = {"requests": {f"m{ORDERS}": "x"}}
    (tmp_path / "w").write_text(json.dumps(world))
    found = CliRunner().invoke(app, ["status", "--world", str(tmp_path / "w")])
    assert "left out: ResourceClaim team/c" in found.stderr
    assert are_harmless(found.stderr), found.stderr


@pytest.mark.parametrize("output", ["table", "yaml"])
def test_so_does_migrate(tmp_path: Path, output: str) -> None:
    """A name of the file, in a table and in a comment; one of the latter cannot end it."""
    pod = spec(container(f"main{ORDERS}", **{"nvidia.com/mig-1g.5gb.shared": "1"}))
    found = ask(tmp_path, workload("Deployment", "d", pod), output=output)
    assert isinstance(found.exception, SystemExit), found.exception
    assert are_harmless(found.stdout), found.stdout


def test_a_sentence_about_bad_input_has_none(tmp_path: Path) -> None:
    """Nor halves of surrogate pairs, which no terminal can be given."""
    text = f"kind: Pod\nmetadata: {{name: p}}\nspec: {{containers: [{{name: c}}], resourceClaims: [{json.dumps({'name': 'a', 'resourceClaimTemplateName': ORDERS})}]}}\n"
    (tmp_path / "f").write_text(text)
    words = ["fit", "-f", str(tmp_path / "f"), "--world", str(two_cards().write(tmp_path / "w"))]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 2
    assert found.stderr.startswith("error: ")
    assert are_harmless(found.stderr), found.stderr


def test_lines_and_letters_stay() -> None:
    """Texts about several nodes have lines."""
    assert visible("a\n- b\tć\U0001f600") == "a\n- b\tć\U0001f600"
    assert visible("\ud800\x00") == r"\ud800\x00"
