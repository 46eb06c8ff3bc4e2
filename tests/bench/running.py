"""Run a module of bench/, or apportion, in a process of its own, as its users do; it is forked, because Python and its imports take longer to start than most of them run."""

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def program(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Return the finished process of `python -m ARGUMENTS...` with these environment variables added."""
    command = [*map(str, arguments)]
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        request = {
            "arguments": command,
            "environment": {**os.environ, **environment},
            "out": str(out),
            "log": str(err),
        }
        code = _finished(_server(), request)
        return subprocess.CompletedProcess(command, code, out.read_text(), err.read_text())


def _finished(server: subprocess.Popen[str], request: dict[str, Any]) -> int:
    """Have a program forked and wait for it; returns its exit code. It ends with a test that is ended, as with `subprocess.run`."""
    assert server.stdin is not None
    server.stdin.write(json.dumps({**request, "id": request["out"]}) + "\n")
    server.stdin.flush()
    pid: int = _said(server, event="started", id=request["out"])["pid"]
    try:
        return int(_said(server, event="exited", pid=pid)["code"])
    except BaseException:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        raise


def _said(server: subprocess.Popen[str], **what: object) -> dict[str, Any]:
    """Return the next line of the fork server with these values; others are of programs for which nobody waits any more."""
    assert server.stdout is not None
    while True:
        said: dict[str, Any] = json.loads(server.stdout.readline())
        if what.items() <= said.items():
            return said


@cache
def _server() -> subprocess.Popen[str]:
    server = subprocess.Popen(
        [sys.executable, "-m", "testbed.chaos.forkserver", "tests.bench.forked"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    atexit.register(_end, server)
    _said(server, event="ready")
    return server


def _end(server: subprocess.Popen[str]) -> None:
    """End the fork server, and with it its programs."""
    server.kill()
    server.communicate()
