"""A page that is short of memory ends by itself and says so, and the process that started it goes on. No cluster: an API server without end."""

import asyncio
import os
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml
from aiohttp import web

from apportion.settings import OperatorSettings, WebSettings
from apportion.web.memory import container_limit
from apportion.web.process import PageProcess, command_of
from testbed.ports import free_ports

MIB = 1 << 20
_PATIENCE = 300.0
"""Seconds: a page that starts and reads thousands of objects beside other tests takes some ten times as long as alone."""
_BEGUN = 160 * MIB
"""A page that has begun takes about 90 MiB."""


def _namespace() -> dict[str, Any]:
    name = secrets.token_hex(16)
    labels = {secrets.token_hex(16): secrets.token_hex(30) for _ in range(20)}
    return {"metadata": {"name": name, "uid": name, "resourceVersion": "1", "labels": labels}}


def _scores(kubeconfig: Path) -> set[str]:
    """Return `oom_score_adj` of the pages among the children of this process: control planes of other tests are children too."""
    children = (
        Path("/proc", child)
        for task in Path("/proc/self/task").iterdir()
        for child in (task / "children").read_text().split()
    )
    return {
        (child / "oom_score_adj").read_text().strip()
        for child in children
        if os.fsencode(kubeconfig) in (child / "cmdline").read_bytes()
    }


class EndlessServer:
    """Answers each list with objects, and says that there are more."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        """Which the pages that ask it were started with."""
        self.endless_answer = False
        """Whether already the first answer has no end."""
        self.scores: set[str] = set()
        """`oom_score_adj` of the pages, at each list."""

    async def version(self, _: web.Request) -> web.Response:
        """Answer /version."""
        return web.json_response({"major": "1", "minor": "37", "gitVersion": "v1.37.0"})

    async def list(self, request: web.Request) -> web.StreamResponse:
        """Answer a list."""
        self.scores |= _scores(self.kubeconfig)
        if self.endless_answer:
            answer = web.StreamResponse()
            await answer.prepare(request)
            with suppress(ConnectionError):
                while True:
                    await answer.write(b'"' * MIB)
            return answer
        if not request.path.endswith("/namespaces"):
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})
        items = [_namespace() for _ in range(500)]
        return web.json_response({"metadata": {"resourceVersion": "1", "continue": "more"}, "items": items})


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[EndlessServer]:
    """Serve, and write a kubeconfig."""
    served = EndlessServer(tmp_path / "kubeconfig")
    app = web.Application()
    app.router.add_get("/version", served.version)
    app.router.add_get("/{path:.*}", served.list)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    [port] = free_ports(1)
    await web.TCPSite(runner, "127.0.0.1", port).start()
    kubeconfig = {
        "clusters": [{"name": "endless", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "contexts": [{"name": "endless", "context": {"cluster": "endless", "user": "nobody"}}],
        "users": [{"name": "nobody", "user": {}}],
        "current-context": "endless",
    }
    served.kubeconfig.write_text(yaml.safe_dump(kubeconfig))
    yield served
    await runner.cleanup()


async def _ended(tmp_path: Path, memory: int) -> list[Any]:
    """Start the page as an operator does, and return what the operator has logged when it has ended twice."""
    [port] = free_ports(1)
    settings = OperatorSettings(
        kubeconfig=tmp_path / "kubeconfig", web=WebSettings(port, log_format="console", memory=memory)
    )
    with structlog.testing.capture_logs() as logs:
        task = asyncio.create_task(PageProcess(command_of(settings)).run())
        try:
            async with asyncio.timeout(_PATIENCE):
                while len(logs) < 2:  # noqa: ASYNC110 - logs set no Event
                    await asyncio.sleep(0.05)
            assert not task.done()
        finally:
            task.cancel()
            await asyncio.wait((task,))
    assert [(log["event"], log["next_in"]) for log in logs] == [("web.ended", 1.0), ("web.ended", 2.0)]
    return logs


@pytest.mark.slow
@pytest.mark.parametrize(("memory", "listed"), [(8 * MIB, False), (_BEGUN, True)])
async def test_a_page_that_does_not_fit_says_so_and_its_operator_goes_on(
    server: EndlessServer,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    memory: int,
    listed: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """At its beginning, or when objects have come; it is started anew, later each time, and is what the kernel would kill first."""
    logs = await _ended(tmp_path, memory)
    reason = "the cluster does not fit into the page's memory"
    assert [(log["status"], log["reason"]) for log in logs] == [(3, reason)] * 2
    said = capfd.readouterr().err
    assert said.count(f"error: the page does not fit into {memory // MIB} MiB of memory (--web-memory") == 2
    assert "Traceback" not in said
    assert server.scores == ({"1000"} if listed else set())


@pytest.mark.slow
async def test_what_is_refused_memory_at_once_ends_too(server: EndlessServer, tmp_path: Path) -> None:
    """One answer without end meets the kernel's limit before the page has looked: libraries may then end it by a signal."""
    server.endless_answer = True
    for log in await _ended(tmp_path, _BEGUN):
        assert log["status"] == 3 or log["status"] < 0
        assert "memory" in log["reason"]


def test_the_kernel_gives_no_more_than_the_limit() -> None:
    """Also where nobody looks how much is taken."""
    text = "from apportion.web.memory import MemoryLimit as M; M(400 << 20).set(); bytearray({} << 20)"
    for asked, status in ((50, 0), (400, 1)):
        found = subprocess.run(
            [sys.executable, "-c", text.format(asked)], check=False, capture_output=True, text=True
        )
        assert found.returncode == status, found.stderr
        assert ("MemoryError" in found.stderr) == bool(status)


@pytest.mark.parametrize(
    ("file", "text", "limit"),
    [
        ("memory.max", "4294967296\n", 4 << 30),
        ("memory.max", "max\n", None),
        ("memory/memory.limit_in_bytes", "1073741824\n", 1 << 30),
        ("memory/memory.limit_in_bytes", "9223372036854771712\n", None),
        ("other", "1", None),
    ],
)
def test_a_container_knows_its_limit(tmp_path: Path, file: str, text: str, limit: int | None) -> None:
    """As cgroups of both versions write it."""
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    assert container_limit(tmp_path) == limit


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["much", "0"])
def test_an_amount_that_is_none_is_refused(memory: str) -> None:
    """With the option's name, before anything is started."""
    found = subprocess.run(
        [sys.executable, "-m", "apportion", "web", "--web-memory", memory],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert found.returncode == 2
    assert "--web-memory" in found.stderr
    assert "Traceback" not in found.stderr
