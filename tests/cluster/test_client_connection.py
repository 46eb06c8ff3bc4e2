"""How the client reaches the server: proxies, and credentials that are not the cluster's."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes_asyncio.client import Configuration

from apportion.cluster.client import Client
from apportion.cluster.kinds import NODES


class Listener:
    """Answers everything, directly or as a forward proxy; notes the requested URLs and credentials."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.credentials: list[str | None] = []
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        """Answer with an empty object."""
        self.asked.append(request.raw_path.split("?")[0])
        self.credentials.append(request.headers.get("Authorization"))
        return web.json_response({"metadata": {"resourceVersion": "1"}})


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    """Listen on a port of this host."""
    made = Listener()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.answer)
    async with TestServer(app) as server:
        made.url = str(server.make_url("/")).rstrip("/")
        yield made


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def get(settings: Configuration) -> None:
    """Read a node."""
    async with Client(settings, patience=5, manager="test") as client:
        await client.get(NODES, "n")


async def test_the_proxy_of_the_kubeconfig_is_used(listener: Listener) -> None:
    """`proxy-url` of the cluster."""
    settings = Configuration(host="http://api.invalid:8080")
    settings.proxy = listener.url
    await get(settings)
    assert listener.asked == ["http://api.invalid:8080/api/v1/nodes/n"]


async def test_the_proxy_of_the_environment_is_used(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by kubectl."""
    monkeypatch.setenv("HTTP_PROXY", listener.url)
    monkeypatch.setenv("NO_PROXY", "elsewhere.invalid")
    await get(Configuration(host="http://api.invalid:8080"))
    assert listener.asked == ["http://api.invalid:8080/api/v1/nodes/n"]


async def test_a_host_of_no_proxy_is_reached_directly(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a cluster whose nodes have a proxy for the outside."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    await get(Configuration(host=listener.url))
    assert listener.asked == ["/api/v1/nodes/n"]


async def test_a_netrc_file_changes_nothing(
    listener: Listener, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its credentials are for others; with a token of the cluster no request could be made at all."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    settings = Configuration(host=listener.url, api_key={"BearerToken": "Bearer abc"})
    await get(settings)
    assert listener.credentials == ["Bearer abc"]
