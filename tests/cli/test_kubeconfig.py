"""Which cluster a command reads: --kubeconfig, --context, KUBECONFIG and ~/.kube/config, as users of kubectl know them."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from apportion.__main__ import app
from docsite.commands import commands
from testbed.controlplane import ControlPlane
from tests.bench.running import program

SERVER = {"server": "https://127.0.0.1:9"}


def run(*arguments: str, home: Path, **environment: str) -> tuple[int, str, str]:
    """Run a command as a person whose home is a folder."""
    found = CliRunner().invoke(app, [*arguments], env={"KUBECONFIG": None, "HOME": str(home), **environment})
    return found.exit_code, found.stdout, found.stderr


def two_contexts(cluster: ControlPlane) -> dict[str, Any]:
    """Return a kubeconfig whose current context leads nowhere, and whose other one, `real`, to the cluster."""
    found: dict[str, Any] = yaml.safe_load(cluster.kubeconfig.read_text())
    [context] = found["contexts"]
    nowhere = {"name": "nowhere", "cluster": {"server": "https://127.0.0.1:9"}}
    real = {"name": "real", "context": context["context"]}
    lost = {"name": "lost", "context": {**context["context"], "cluster": "nowhere"}}
    return {
        **found,
        "clusters": [*found["clusters"], nowhere],
        "contexts": [lost, real],
        "current-context": "lost",
    }


async def test_contexts_lists_of_files_and_the_own_configuration_are_found(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    """Exit status 1 says that the cluster was read, and that nothing is left there; 2 that it was not."""
    path = tmp_path / ".kube/config"
    path.parent.mkdir()
    path.write_text(yaml.safe_dump(two_contexts(control_plane)))
    several = os.pathsep.join((str(tmp_path / "missing"), str(path)))
    for arguments, environment in (
        (("--context", "real"), {}),
        (("--context", "real"), {"KUBECONFIG": several}),
        (("--context", "real", "--kubeconfig", str(path)), {"HOME": str(tmp_path / "elsewhere")}),
    ):
        code, _, err = await asyncio.to_thread(run, "snapshot", *arguments, home=tmp_path, **environment)
        assert code == 0, err
    code, _, err = await asyncio.to_thread(run, "snapshot", home=tmp_path)
    assert code == 2
    assert "127.0.0.1:9" in err or "Cannot connect" in err
    code, out, err = await asyncio.to_thread(run, "release", "--context", "unheard-of", home=tmp_path)
    assert (code, out) == (2, "")
    assert "unheard-of" in err


@pytest.mark.parametrize("command", ["free", "status", "top", "snapshot", "release"])
@pytest.mark.parametrize("text", ["clusters: [\n", "", "[]"])
def test_a_broken_configuration_is_one_sentence(command: str, text: str, tmp_path: Path) -> None:
    """Exit status 2, and no words of a library about its own types."""
    (tmp_path / "broken").write_text(text)
    code, out, err = run(command, "--kubeconfig", str(tmp_path / "broken"), home=tmp_path)
    assert (code, out) == (2, "")
    assert err.startswith("error: kubeconfig:")
    assert "object" not in err
    code, _, err = run(command, "--context", "mine", home=tmp_path)
    assert code == 2
    assert "--context" in err


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"cluster": {"server": None}}, "cluster.server: expected an address, as https://api.example.com:6443"),
        ({"cluster": {}}, "cluster.server: expected an address"),
        ({"cluster": {"server": 5}}, "cluster.server: expected an address"),
        ({"cluster": {"server": "http://[::1"}}, "cluster.server: expected an address"),
        ({"cluster": {"server": "https://h:99999"}}, "cluster.server: expected an address"),
        ({"cluster": {"server": "localhost:6443"}}, "cluster.server: expected an address"),
        ({"cluster": {**SERVER, "certificate-authority-data": "none"}}, "cluster.certificate-authority: "),
        ({"cluster": {**SERVER, "certificate-authority-data": "abc"}}, "certificate-authority-data, client"),
        ({"cluster": {**SERVER, "certificate-authority": "empty"}}, "cluster.certificate-authority: "),
        ({"user": {"client-certificate-data": "bm9uZQ==", "client-key-data": "bm9uZQ=="}}, "user.client-certificate: "),
        ({"user": {"client-certificate": "empty"}}, "user.client-certificate: "),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["free", "release"])
def test_a_part_that_is_broken_is_named_with_its_file(
    tmp_path: Path, command: str, part: dict[str, Any], said: str
) -> None:
    """The library that reads a kubeconfig takes addresses and certificates for granted."""
    (tmp_path / "empty").write_text("")
    cluster = {key: value for key, value in part.get("cluster", SERVER).items() if value is not None}
    raw = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": part.get("user", {"token": "t"})}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (tmp_path / "k").write_text(yaml.safe_dump(raw))
    code, out, err = run(command, "--kubeconfig", str(tmp_path / "k"), home=tmp_path)
    assert (code, out) == (2, ""), err
    assert err.startswith(f"error: kubeconfig: {tmp_path / 'k'}: {said}"), err
    assert len(err.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [("operator",), ("web",), ("agent", "--node-name", "n1")], ids=lambda words: words[0]
)
def test_programs_too_say_in_one_sentence_what_is_wrong_with_a_configuration(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    """One that is broken, and one that is not there; the operator's log is no place for a trace, either."""
    (tmp_path / "broken").write_text("clusters: [\n")
    for name, words in (("broken", "error: kubeconfig: while parsing"), ("absent", "there is no such file")):
        found = program("apportion", *command, "--kubeconfig", tmp_path / name)
        assert found.returncode in (1, 2), found.stderr
        assert words in found.stderr
        assert len(found.stderr.splitlines()) == 1, found.stderr


def test_every_command_with_a_kubeconfig_has_a_context() -> None:
    """Operator and agent have their service account, and are given no context."""
    found = {
        words: {option for each in command.params for option in each.opts} for words, command in commands()
    }
    assert [
        words
        for words, options in found.items()
        if "--kubeconfig" in options and "--context" not in options and words[1] not in {"operator", "agent"}
    ] == []
