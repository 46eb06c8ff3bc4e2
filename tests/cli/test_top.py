"""`apportion top`: one picture without a terminal; on a terminal a new one for each change, until Ctrl-C."""

import asyncio
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from aiohttp import web
from typer.testing import CliRunner

from apportion.cli.answers.top import top
from apportion.cluster.kinds import NODES, SLICES
from testbed.installation import REPOSITORY
from tests.cli.worlds import profile_request, two_cards
from tests.cluster.apiserver import ApiServer, failed
from tests.cluster.userconfig import config
from tests.observedcluster import ObservedCluster, request

app = typer.Typer()
app.command()(top)


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    """A shell that runs tests in the background ignores interrupts, and so would what they start."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_without_a_terminal_it_is_one_picture_at_80_columns(tmp_path: Path) -> None:
    """What is left, the map, and who waits, in the order of the queue."""
    cluster = two_cards()
    for number in range(12):
        cluster.wait_for(f"w{number:02}", request("gpu", count=2))
    path = cluster.write(tmp_path / "w")
    result = CliRunner().invoke(app, ["--world", str(path)], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    for text in ("3g.40gb", "[AAAA....]", "12 waiting", "team/w00", "and 2 more"):
        assert text in result.stdout
    assert "team/w11" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_a_world_that_is_not_there_ends_with_2(tmp_path: Path) -> None:
    """One sentence."""
    result = CliRunner().invoke(app, ["--world", str(tmp_path / "none")])
    assert result.exit_code == 2
    assert "No such file" in result.stderr


@pytest.mark.slow
def test_on_a_terminal_it_follows_the_cluster_until_it_is_interrupted(tmp_path: Path) -> None:
    """A claim that begins to wait is seen in the next picture; Ctrl-C is no error."""
    cluster = two_cards()
    path = cluster.write(tmp_path / "w")
    process, ours = _on_a_terminal("--world", str(path))
    seen = _until(ours, b"Ctrl-C ends it")
    assert b"late" not in seen
    cluster.wait_for("late", profile_request("7g.80gb", count=2))
    new = cluster.write(tmp_path / "new")
    new.replace(path)
    _until(ours, b"team/late")
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    os.close(ours)


@pytest.mark.slow
async def test_a_server_that_does_not_answer_for_a_moment_ends_nothing(tmp_path: Path) -> None:
    """The last picture stays, with the reason, which was on the screen that goes with the command; then there is a new one."""

    def version(request: web.Request) -> web.Response | None:
        return web.json_response({"major": "1", "minor": "37"}) if request.path == "/version" else None

    async with ApiServer().serving() as server:
        server.fault = version
        process, ours = _on_a_terminal("--kubeconfig", str(config(tmp_path, server)))
        await asyncio.to_thread(_until, ours, b"Ctrl-C ends it")
        server.fault = lambda _: failed(500, "etcdserver: leader changed")
        seen = await asyncio.to_thread(_until, ours, b"leader changed")
        assert b"no slice publishes a device" in seen
        made = ObservedCluster()
        server.put(NODES, made.node("n1"))
        server.put(SLICES, made.slice("n1", "s", {"devices": [{"name": "gpu-0"}]}, 1))
        server.fault = version
        await asyncio.to_thread(_until, ours, b"n1")
        process.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(process.wait, 30) == 0
        os.close(ours)


def _on_a_terminal(*options: str) -> tuple[subprocess.Popen[bytes], int]:
    """Begin it on a terminal; returns the other end of that, too."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "apportion", "top", *options, "--interval", "1"],
        stdin=theirs, stdout=theirs, stderr=theirs,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "operator"), "TERM": "xterm", "COLUMNS": "100", "LINES": "40"},
    )  # fmt: skip
    os.close(theirs)
    return process, ours


def _until(terminal: int, text: bytes, within: float = 60.0) -> bytes:
    """Return what was written until this text was."""
    seen, end = b"", time.monotonic() + within
    while text not in seen and time.monotonic() < end:
        seen += os.read(terminal, 65536)
    assert text in seen, seen.decode()
    return seen
