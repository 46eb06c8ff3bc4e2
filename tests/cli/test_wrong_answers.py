"""Commands beside servers and kubeconfigs that answer what no API server says: one sentence on standard error, and exit status 2."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from click.testing import Result
from typer.testing import CliRunner

from apportion.__main__ import app
from tests.cli.answeringserver import answering

Json = dict[str, Any]
VERSION = orjson.dumps({"major": "1", "minor": "37", "gitVersion": "v1.37.0"})
STATUS = orjson.dumps(
    {"kind": "Status", "metadata": {}, "status": "Failure", "message": "it is over", "code": 500}
)


def serving(version: bytes, rest: bytes, status: int = 200) -> AbstractContextManager[str]:
    """Serve these answers; returns the address."""
    return answering(lambda path: (status, version if path.startswith("/version") else rest))


def ask(tmp_path: Path, server: str, user: Json, command: str = "free") -> Result:
    context = {"cluster": "c", "user": "u"}
    raw = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": context}],
        "current-context": "x",
    }
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(raw))
    return CliRunner().invoke(app, [command, "--kubeconfig", str(path)], env={"KUBECONFIG": None})


def is_one_sentence(result: Result) -> bool:
    refused = result.exit_code == 2 or (result.exit_code == 1 and isinstance(result.exception, SystemExit))
    return refused and len(result.stderr.splitlines()) == 1 and result.stderr.startswith("error: ")


@pytest.mark.parametrize(
    "version",
    [
        b"{}",
        b'{"major": 1, "minor": null}',
        b'{"major": "", "minor": ""}',
        b'{"major": "1", "minor": "+"}',
        b"[]",
        STATUS,
        b"<html>sign in</html>",
    ],
)
def test_a_version_that_is_none_is_named(tmp_path: Path, version: bytes) -> None:
    """With what was answered."""
    with serving(version, b"") as server:
        result = ask(tmp_path, server, {})
    assert is_one_sentence(result), (result.exit_code, result.stderr, result.exception)
    assert result.stderr.startswith("error: GET /version: "), result.stderr


@pytest.mark.parametrize("command", ["free", "snapshot"])
@pytest.mark.parametrize(
    ("rest", "words"),
    [
        (STATUS, "it is over"),
        (b'{"kind": "NodeList", "metadata": {}}', ""),
        (b'{"kind": "NodeList", "metadata": {}, "items": 7}', "7"),
        (b'{"kind": "NodeList", "metadata": {}, "items": [7]}', "7"),
        (b"<html>sign in</html>", "sign in"),
        (b"", "no object"),
    ],
)
def test_an_answer_that_is_none_is_named(tmp_path: Path, command: str, rest: bytes, words: str) -> None:
    """A gateway in the API server's place, or a proxy that asks people to sign in."""
    with serving(VERSION, rest) as server:
        result = ask(tmp_path, server, {}, command)
    assert is_one_sentence(result), (result.exit_code, result.stderr, result.exception)
    assert words in result.stderr


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ({"tokenFile": "empty"}, "401"),
        ({"tokenFile": "absent"}, "absent"),
        ({"token": ""}, "401"),
        ({"token": "expired"}, "401"),
        ({"token": "two\nlines"}, "the token has characters that no request can have"),
        ({"exec": {"apiVersion": "v1", "command": "/nowhere/plugin"}}, "/nowhere/plugin"),
        ({"exec": {"apiVersion": "v1", "command": "false"}}, ""),
        ({"exec": {"apiVersion": "v1", "command": "true"}}, ""),
        ({"exec": {"apiVersion": "v1", "command": "echo", "args": ["[]"]}}, ""),
        ({"exec": {"apiVersion": "v1", "command": "echo", "args": ['{"apiVersion": "v1", "kind": "ExecCredential", "status": null}']}}, ""),
        ({"exec": {"apiVersion": "v1", "command": "echo", "args": ['{"apiVersion": "v1", "kind": "ExecCredential", "status": {}}']}}, ""),
        ({"exec": {"apiVersion": "v1", "command": "echo", "args": ['{"apiVersion": "v1", "kind": "ExecCredential", "status": {"token": "a", "expirationTimestamp": "never"}}']}}, ""),
        ({"exec": {"command": "echo"}}, ""),
        ({"exec": "echo"}, ""),
        ({"client-certificate-data": "x"}, ""),
        ({"client-certificate": "absent"}, ""),
        ({"auth-provider": {"name": "oidc", "config": {"id-token": "a.b.c"}}}, ""),
        ({"auth-provider": {"name": "oidc"}}, ""),
        ({"username": 7}, ""),
    ],
)  # fmt: skip
def test_the_reason_is_said_to_a_user_whom_the_server_does_not_know(
    tmp_path: Path, user: Json, words: str
) -> None:
    """A token that is over or empty, a plugin that is not there or says nothing."""
    (tmp_path / "empty").write_text("")
    if "tokenFile" in user:
        user = {"tokenFile": str(tmp_path / user["tokenFile"])}
    unauthorized = orjson.dumps({"kind": "Status", "metadata": {}, "message": "Unauthorized", "code": 401})
    with serving(unauthorized, unauthorized, 401) as server:
        result = ask(tmp_path, server, user)
    assert is_one_sentence(result), (result.exit_code, result.stderr, result.exception)
    assert words in result.stderr
