"""The testbed's client asks once more while the API server has just begun to serve a kind."""

from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from testbed import kubeconfig
from testbed.api import Api
from testbed.errors import ApiError

_PATH = "/apis/example.com/v1/things"


@pytest.fixture
async def access(authority: str) -> kubeconfig.Access:
    """Give what leads to nobody yet."""
    return kubeconfig.Access("http://127.0.0.1:1", Path(authority))


@pytest.mark.parametrize("text", ["storage is (re)initializing", "too many requests"])
async def test_a_kind_that_is_new_is_asked_for_once_more(access: kubeconfig.Access, text: str) -> None:
    """Controllers and kubectl do so, too. What else is too much is said to who asked."""
    asked: list[str] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.path)
        if len(asked) < 3:
            said = {"kind": "Status", "reason": "TooManyRequests", "message": text}
            return web.json_response(said, status=429)
        return web.json_response({"items": []})

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0]
        async with Api(replace(access, server=f"http://{host}:{port}")) as api:
            if text.startswith("storage"):
                assert await api.get(_PATH) == {"items": []}
                assert asked == [_PATH] * 3
            else:
                with pytest.raises(ApiError, match=text):
                    await api.get(_PATH)
                assert asked == [_PATH]
    finally:
        await runner.cleanup()
