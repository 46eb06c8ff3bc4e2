"""Answers with status 200 that are none: what has to be known is repeated, and nothing ends."""

import asyncio
from collections.abc import AsyncIterator, Callable

import orjson
import pytest
from aiohttp import web

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLASSES
from apportion.cluster.reflector import Reflector
from apportion.errors import Unreachable
from testbed.beside import beside
from testbed.eventually import eventually
from tests.cluster.apiserver import ApiServer, Fault, Json, failed
from tests.cluster.emptyserver import client
from tests.cluster.seen import Seen, a_class

__all__ = ["client"]

STATUS: Json = {"kind": "Status", "metadata": {}, "status": "Failure", "code": 410, "message": "too old"}
ANSWERS: tuple[object, ...] = (
    STATUS,
    STATUS | {"code": 500},
    STATUS | {"code": None},
    [],
    None,
    {},
    {"metadata": {}, "items": []},
    {"metadata": {"resourceVersion": "1000"}},
    {"metadata": {"resourceVersion": "1000"}, "items": [{}]},
)
LINES: tuple[object, ...] = (
    *ANSWERS,
    {"type": "ERROR", "object": STATUS},
    {"type": "ERROR", "object": STATUS | {"code": 500}},
    {"type": "ERROR", "object": STATUS | {"code": 429}},
    {"type": "ERROR", "object": STATUS | {"code": 0}},
    {"type": "ADDED", "object": STATUS},
    {"type": "ADDED", "object": {"metadata": {"name": "x"}}},
    {"type": "BOOKMARK", "object": {"metadata": {}}},
    {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "soon"}}},
    {"type": "RENAMED", "object": {"metadata": {"name": "x", "uid": "u", "resourceVersion": "1000"}}},
    {"type": None, "object": {"metadata": {"name": "x", "uid": "u", "resourceVersion": "1000"}}},
    {"type": ["ADDED"], "object": {"metadata": {"name": "x", "uid": "u", "resourceVersion": "1000"}}},
)


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    """Serve one class in memory."""
    async with ApiServer().serving() as made:
        made.put(CLASSES, a_class("first"))
        yield made


def once(said: object, when: Callable[[web.Request], bool]) -> Callable[[web.Request], web.Response | None]:
    """Answer one such request with this."""
    left = [said]

    def fault(request: web.Request) -> web.Response | None:
        if not left or not when(request):
            return None
        return web.Response(body=orjson.dumps(left.pop()) + b"\n", content_type="application/json")

    return fault


@pytest.mark.slow
@pytest.mark.parametrize("said", ANSWERS, ids=str)
async def test_a_list_that_is_none_is_repeated(server: ApiServer, client: Client, said: object) -> None:
    """It ended the operator, or all objects of the kind counted as deleted."""
    server.fault = once(said, lambda request: "watch" not in request.query)
    reflector = Reflector(client, CLASSES, seen := Seen())
    async with beside(reflector.run()):
        await eventually(lambda: seen.has("first"))


@pytest.mark.slow
@pytest.mark.parametrize("said", LINES, ids=str)
async def test_a_watch_goes_on_after_a_line_that_is_no_event(
    server: ApiServer, client: Client, said: object
) -> None:
    """Every change is seen once the server makes sense again."""
    server.fault = once(said, lambda request: "watch" in request.query)
    reflector = Reflector(client, CLASSES, seen := Seen())
    async with beside(reflector.run()):
        await eventually(lambda: seen.has("first"))
        server.put(CLASSES, a_class("second"))
        await eventually(lambda: seen.has("second"))
        server.drop(CLASSES, "first")
        await eventually(lambda: seen.has("first"), lambda found: not found)


@pytest.mark.slow
async def test_an_event_of_any_length_is_read(server: ApiServer, client: Client) -> None:
    """Longer than what the transport takes for a line."""
    reflector = Reflector(client, CLASSES, seen := Seen())
    async with beside(reflector.run()):
        await eventually(lambda: seen.has("first"))
        server.put(CLASSES, a_class("long") | {"padding": "x" * 2**23})
        server.put(CLASSES, a_class("behind"))
        await eventually(lambda: seen.has("behind"))
        assert await seen.has("long")


@pytest.mark.parametrize(
    ("wait", "honoured"),
    [
        ("7", 7.0),
        ("86400", 60.0),
        ("9" * 400, 60.0),
        ("-5", 0.0),
        ("Fri, 31 Dec 1999 23:59:59 GMT", 0.0),
        ("soon", 0.0),
        ("1e3", 0.0),
    ],
)
async def test_a_server_is_left_alone_for_a_minute_at_most(
    server: ApiServer, wait: str, honoured: float
) -> None:
    """A claim was not tried for a day where a gateway said so."""
    server.fault = lambda _: failed(429, "later", {"Retry-After": wait})
    async with server.client(patience=1.0) as client:
        with pytest.raises(Unreachable) as refused:
            await client.patch(CLASSES, "first", {})
    assert refused.value.retry_after == honoured


async def lists(server: ApiServer) -> int:
    """Return how many lists were begun."""
    return sum("watch" not in path and "continue" not in path for _, path in server.requests)


def too_old(request: web.Request) -> web.Response | None:
    return failed(410, "too old resource version") if "watch" in request.query else None


def too_old_in_the_stream(request: web.Request) -> web.Response | None:
    event = orjson.dumps({"type": "ERROR", "object": STATUS}) + b"\n"
    return web.Response(body=event) if "watch" in request.query else None


def too_old_pages(request: web.Request) -> web.Response | None:
    if "continue" in request.query:
        return failed(410, "the provided continue parameter is too old")
    return None


@pytest.mark.slow
@pytest.mark.parametrize("fault", [too_old, too_old_in_the_stream, too_old_pages])
async def test_a_server_that_finds_every_version_too_old_is_not_flooded(
    server: ApiServer, client: Client, fault: Fault
) -> None:
    """Each try has it send all objects: the first one comes at once, later ones after longer and longer pauses."""
    server.put(CLASSES, a_class("second"))
    server.fault = fault
    reflector = Reflector(client, CLASSES, seen := Seen(), page=1)
    async with beside(reflector.run()):
        await asyncio.sleep(3)
        assert await lists(server) <= 6
        await eventually(lambda: lists(server), lambda found: found >= 3)
        server.fault = lambda _: None
        server.put(CLASSES, a_class("late"))
        await eventually(lambda: seen.has("late"))
