"""Tokens that end while a kubeconfig's user is connected, and requests that are refused at the same time."""

import asyncio
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from apportion.cluster import credentials
from apportion.cluster.client import connect
from apportion.cluster.kinds import CLASSES
from apportion.cluster.reflector import Reflector
from apportion.errors import ApiError
from testbed.beside import beside
from testbed.eventually import eventually
from tests.clock import Clock
from tests.cluster.apiserver import ApiServer
from tests.cluster.seen import Seen
from tests.cluster.test_credentials import Guard, client, write
from tests.cluster.userconfig import config

PLUGIN = """#!/bin/sh
echo run >> {folder}/runs
cat <<END
{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {{"token": "$(cat {folder}/token)"}}}}
END
"""


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    """Serve a class in memory."""
    async with ApiServer().serving() as made:
        made.put(CLASSES, {"metadata": {"name": "c"}})
        yield made


def by_plugin(folder: Path) -> dict[str, Any]:
    """Make a plugin that gives the token in the folder, as those of cloud providers do."""
    plugin = folder / "plugin"
    plugin.write_text(PLUGIN.format(folder=folder))
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    api = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": api, "command": str(plugin), "interactiveMode": "Never"}}


@pytest.mark.parametrize("kind", ["plugin", "file"])
async def test_a_token_that_has_ended_is_asked_for_anew(server: ApiServer, tmp_path: Path, kind: str) -> None:
    """A plugin's lasts for a quarter of an hour: the page saw nothing after that until it was restarted."""
    token = tmp_path / "token"
    token.write_text("first")
    user = by_plugin(tmp_path) if kind == "plugin" else {"tokenFile": str(token)}
    server.fault = guard = Guard("first")
    async with await connect(config(tmp_path, server, user)) as one:
        reflector = Reflector(one, CLASSES, seen := Seen())
        async with beside(reflector.run()):
            await reflector.synced.wait()
            token.write_text("second")
            guard.valid = {"second"}
            server.end_watches()
            server.put(CLASSES, {"metadata": {"name": "late"}})
            await eventually(lambda: seen.has("late"))
        await one.get(CLASSES, "c")


async def test_a_plugin_whose_token_is_refused_is_not_run_for_each_request(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may ask a person, or a service that counts; what it gives is refused for good."""
    # All requests are made before the plugin may be run again, however long they take.
    monkeypatch.setattr(credentials, "_PAUSE", 3600.0)
    (tmp_path / "token").write_text("first")
    server.fault = Guard("another")
    async with await connect(config(tmp_path, server, by_plugin(tmp_path))) as one:
        for _ in range(3):
            refused = await asyncio.gather(*(one.get(CLASSES, "c") for _ in range(5)), return_exceptions=True)
            assert all(isinstance(each, ApiError) and each.status == 401 for each in refused)
    assert (tmp_path / "runs").read_text().split() == ["run"] * 2


async def test_requests_that_are_refused_at_once_are_all_made_with_the_next_token(
    server: ApiServer, tmp_path: Path
) -> None:
    """The first of them has read the file, and the others found the same in it: they counted as refused for good."""
    file = tmp_path / "token"
    write(file, "first")
    server.fault = Guard("second")
    async with client(server, file, Clock()) as one:
        write(file, "second")
        found = await asyncio.gather(*(one.get(CLASSES, "c") for _ in range(5)))
    assert [each["metadata"]["name"] for each in found] == ["c"] * 5
