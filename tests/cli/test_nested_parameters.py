"""Parameters of a driver that are nested hundreds or thousands of levels deep, which anybody may make: the API server stores them as they are."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from apportion.__main__ import app
from tests.cli.worlds import two_cards
from tests.observedcluster import request

Json = dict[str, Any]
CLAIM = json.dumps(
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "asked", "namespace": "team"},
        "spec": {"devices": {"requests": [request("gpu")], "config": [{"opaque": "OPAQUE"}]}},
    }
)
DEPTHS = pytest.mark.parametrize("levels", [140, 300, 950, 4900])


def ask(*words: object) -> Result:
    found = CliRunner().invoke(app, [str(word) for word in words])
    assert isinstance(found.exception, SystemExit | None), found.exception
    return found


def nested(levels: int) -> str:
    """Return JSON of so many objects in each other."""
    return '{"a":' * levels + "1" + "}" * levels


def written(path: Path, levels: int) -> Path:
    """Write a cluster in which a claim that waits, and one that has a card, have such parameters of a foreign driver."""
    cluster = two_cards()
    config = [{"opaque": {"driver": "foreign.example.com", "parameters": "DEEP"}}]
    cluster.claim("waits", request("gpu"), config=config)
    cluster.pod("waits", "waits")
    has = cluster.claim("has", request("gpu"), config=config)
    cluster.allocate(has, "n2", "gpu-0")
    text = json.dumps(cluster.as_list())
    assert '"DEEP"' in text
    path.write_text(text.replace('"DEEP"', nested(levels)))
    return path


def _counts(found: Result) -> list[tuple[int, int, int]]:
    """Return how many of each kind of devices are left, of how many, and on how many nodes."""
    return [(each["left"], each["of"], len(each["nodes"])) for each in json.loads(found.stdout)["devices"]]


@DEPTHS
@pytest.mark.parametrize("option", ["", "--anonymize"])
def test_a_snapshot_leaves_them_out_and_answers_stay_what_they_are(
    tmp_path: Path, levels: int, option: str
) -> None:
    """What is kept of them is still too deep for the operator: the claim keeps its card, and says why nobody serves it."""
    path = written(tmp_path / "w", levels)
    found = ask("snapshot", "--world", path, *option.split())
    assert found.exit_code == 0
    cut = "what is nested more than 150 levels deep"
    assert sorted(found.stderr.splitlines()) == [
        f"left out: ResourceClaim team/{each}: {cut}" for each in ("has", "waits") if levels > 250
    ]
    (tmp_path / "again").write_text(found.stdout)
    before, after = (ask("free", "--world", each, "-o", "json") for each in (path, tmp_path / "again"))
    assert _counts(before) == _counts(after)
    said = "objects and lists are nested more than 100 levels deep"
    assert [line.endswith(said) for line in after.stderr.splitlines()] == [True, True]


@DEPTHS
def test_a_file_of_claims_names_the_one_that_has_them(tmp_path: Path, levels: int) -> None:
    """`fit` cannot ask about it; `migrate` does not read claims."""
    world = written(tmp_path / "w", levels)
    path = tmp_path / "claim"
    opaque = '{"driver": "foreign.example.com", "parameters": ' + nested(levels) + "}"
    path.write_text(CLAIM.replace('"OPAQUE"', opaque))
    found = ask("fit", "-f", path, "--world", world)
    assert found.exit_code == 2
    assert (
        "spec.devices.config[0].opaque: claim asked: objects and lists are nested more than 100 levels"
        in found.stderr
    )
    found = ask("migrate", "-f", path, "--world", world)
    assert "claim: no workload in it" in found.stderr


def test_yaml_that_is_too_deep_is_refused_in_one_sentence(tmp_path: Path) -> None:
    """As kubectl writes it, too: PyYAML reads some hundred levels."""
    (tmp_path / "w").write_text("kind: ResourceClaim\nspec: " + nested(950))
    found = ask("fit", "-f", tmp_path / "w", "--world", tmp_path / "w")
    assert found.exit_code == 2
    assert "w: its objects and lists are nested too deeply" in found.stderr
