"""Options are spelt alike in all commands; what an earlier release called otherwise is still understood."""

import json
from collections import defaultdict
from pathlib import Path

import pytest
from typer.testing import CliRunner

from apportion.__main__ import app
from docsite.commands import commands
from tests.cli.worlds import two_cards

PROGRAMS = {"operator", "agent"}
"""Nobody types these: a manifest does."""
WORKLOAD = """
kind: Pod
metadata: {name: p, namespace: team}
spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}
"""


def test_an_option_has_the_same_letter_and_the_same_outputs_everywhere() -> None:
    """Who knows `-n` and `-o table` of one command, or of kubectl, types them to the next one."""
    letters: dict[str, dict[str, list[str]]] = defaultdict(dict)
    outputs = {}
    for words, command in commands():
        for each in command.params:
            if each.param_type_name == "option" and not PROGRAMS & {*words}:
                names = [name for name in each.opts if name.startswith("--")]
                short = [name for name in each.opts if name not in names]
                letters[names[0]][" ".join(words)] = short
                if names[0] == "--output":
                    outputs[" ".join(words)] = (each.default, each.help.split(",")[0].split()[0])
    assert {name: found for name, found in letters.items() if len({*map(tuple, found.values())}) > 1} == {}
    assert {*outputs.values()} == {("table", "table")}, outputs


@pytest.mark.parametrize(
    ("command", "former", "now"),
    [
        ("migrate -f pod -o json", "--cluster world", "--world world"),
        ("allocate -f offline", "-o text", "-o table"),
        ("select -f devices -e true", "-o text", "-o table"),
    ],
)
def test_the_former_spelling_means_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, former: str, now: str
) -> None:
    """Scripts go on."""
    two_cards().write(tmp_path / "world")
    (tmp_path / "pod").write_text(WORKLOAD)
    (tmp_path / "offline").write_text(json.dumps({"nodes": [{"name": "n"}], "claims": []}))
    (tmp_path / "devices").write_text(json.dumps([{"name": "gpu-0", "driver": "d"}]))
    monkeypatch.chdir(tmp_path)
    before, after = (
        CliRunner().invoke(app, [*command.split(), *spelling.split()]) for spelling in (former, now)
    )
    assert isinstance(after.exception, SystemExit | None), after.exception
    assert after.exit_code < 2, after.stderr
    assert after.stdout
    assert (before.exit_code, before.stdout) == (after.exit_code, after.stdout)


@pytest.mark.parametrize(
    "words",
    ["pod team/holder", "pods team/holder", "po holder -n team", "pod/holder -n team", "pod/team/holder"],
)
def test_a_pod_is_named_as_for_kubectl(tmp_path: Path, words: str) -> None:
    """By each of its names, before a blank or a slash."""
    world = two_cards().write(tmp_path / "world")
    found = CliRunner().invoke(app, ["why", *words.split(), "--world", str(world)])
    assert found.exit_code == 0, found.stderr
    assert found.stdout.startswith("pod team/holder is served")
    claim = CliRunner().invoke(app, ["why", "resourceclaims", "team/held", "--world", str(world)])
    assert claim.stdout.startswith("claim team/held is served")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("node n1", "node: there are claim and pod"),
        ("pod", "write pod NAME, or pod/NAME"),
        ("pod/holder holder", "write pod NAME, or pod/NAME"),
        ("claim/", "write claim NAME, or claim/NAME"),
    ],
)
def test_what_is_no_name_is_refused(words: str, said: str) -> None:
    """In one sentence, before a cluster is asked."""
    found = CliRunner().invoke(app, ["why", *words.split(), "--kubeconfig", "/nowhere"])
    assert found.exit_code == 2
    assert said in found.stderr
