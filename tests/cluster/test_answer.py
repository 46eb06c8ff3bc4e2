"""Answers of the API server are read whatever one object in them is like."""

import asyncio
import contextlib

import orjson
import pytest
from kubernetes_asyncio.client import Configuration

from apportion.cli.world.packedobjects import packed, unpacked
from apportion.cluster.answer import DEEPEST, decoded, read_json, watch_event
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS
from apportion.errors import ApiError, Expired, Overtaken, Unanswered, Unreachable

TEXT = 'a "quoted] [text{ and \\\\ more'


def claim(name: str, levels: int) -> str:
    """Return a claim with parameters of so many levels, as anybody may make it: the API server takes 10 KiB of them."""
    parameters = (
        f'{{"before": 1, "deep": {"[" * levels}{"]" * levels}, "after": {orjson.dumps(TEXT).decode()}}}'
    )
    config = f'[{{"opaque": {{"driver": "d", "parameters": {parameters}}}}}]'
    return f'{{"metadata": {{"name": "{name}", "uid": "u-{name}", "resourceVersion": "1"}}, "spec": {{"devices": {{"config": {config}}}}}}}'


@pytest.mark.parametrize("levels", [3, 600, 1020, 1100, 5000])
def test_one_object_that_is_nested_deeply_keeps_no_list_from_being_read(levels: int) -> None:
    """Nobody else could be served as long as it is there."""
    answer = f'{{"metadata": {{"resourceVersion": "9"}}, "items": [{claim("a", 3)}, {claim("hostile", levels)}, {claim("b", 3)}]}}'.encode()
    items = decoded("GET", "/claims", answer)["items"]
    assert [item["metadata"]["name"] for item in items] == ["a", "hostile", "b"]
    for item in items:
        parameters = item["spec"]["devices"]["config"][0]["opaque"]["parameters"]
        assert (parameters["before"], parameters["after"]) == (1, TEXT)
    assert items[0] == orjson.loads(claim("a", 3))
    assert unpacked(packed(items[1]))["metadata"]["name"] == "hostile"


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (rb"\ud800", "\ufffd"),
        (rb"\uDC00\ud83d\ude00\uDBFF.", "\ufffd\U0001f600\ufffd."),
        (rb"\\ud800 \ud800", "\\ud800 \ufffd"),
        (b"\xff", "\ufffd"),
        (b"\xc3\xa4\xed\xa0\x80", "\u00e4\ufffd\ufffd\ufffd"),
    ],
)
def test_characters_that_are_none_keep_no_list_from_being_read(sent: bytes, read: str) -> None:
    """In parameters of a claim the API server keeps them; Go reads a replacement."""
    answer = (
        b'{"metadata": {"resourceVersion": "9"}, "items": [{"parameters": {"a": "'
        + sent
        + b'"}}, {"parameters": {"a": "[{"}}]}'
    )
    items = decoded("GET", "/claims", answer)["items"]
    assert [item["parameters"]["a"] for item in items] == [read, "[{"]


def test_what_is_no_json_is_no_answer() -> None:
    """Also where it has brackets."""
    for text in (b"<html>[[[", b"[" * 2 * DEEPEST, b'{"a": "', b"[" * 2 * DEEPEST + b"]"):
        with pytest.raises(Unanswered):
            decoded("GET", "/", text)
        with pytest.raises(orjson.JSONDecodeError):
            read_json(text)


@pytest.mark.parametrize("text", [b'{"error": "log in"}', b"[]", b'"ok"', b"{}", b'{"metadata": 1}'])
def test_what_a_gateway_says_in_json_is_no_answer(text: bytes) -> None:
    """With status 200: a write would count as carried out."""
    with pytest.raises(Unanswered, match="no object of the API"):
        decoded("PATCH", "/claims/a/status", text)


@pytest.mark.parametrize(
    "text",
    [
        b'{"metadata": {}, "items": []}',
        b'{"metadata": {"resourceVersion": "1"}}',
        b'{"metadata": {"resourceVersion": "1"}, "items": {}}',
        b'{"metadata": {"resourceVersion": "1"}, "items": [null]}',
        b'{"metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"name": "a"}}]}',
    ],
)
def test_what_is_not_all_of_a_list_is_no_list(text: bytes) -> None:
    """What it left out would count as deleted, and what it lacks ended the operator."""
    with pytest.raises(Unanswered, match="no object of the API"):
        decoded("GET", "/claims", text, "list")


FAILURE = b'{"kind": "Status", "metadata": {}, "status": "Failure", "message": "too old", "code": %s}'


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (b"410", Expired),
        (b"409", Overtaken),
        (b"200", Unanswered),
        (b"null", Unanswered),
        (b'"x"', Unanswered),
    ],
)
def test_a_failure_is_one_whatever_the_status_of_http_says(code: bytes, error: type[ApiError]) -> None:
    """A write counted as carried out, and a watch went on for ever from a version that was too old."""
    for form in ("object", "list", "outcome", "any"):
        with pytest.raises(error, match="too old"):
            decoded("PATCH", "/claims/a", FAILURE % code, form)
    for line in (FAILURE % code, b'{"type": "ERROR", "object": ' + FAILURE % code + b"}"):
        with pytest.raises(error, match="too old"):
            watch_event("/claims", line)


def test_what_stands_for_no_object_has_no_metadata() -> None:
    """The server's version."""
    assert decoded("GET", "/version", b'{"major": "1"}', "any") == {"major": "1"}


@pytest.mark.parametrize(
    "line",
    [
        b'{"error": "log in"}',
        b"[]",
        b"1",
        b"<html>",
        b'{"type": "ADDED"}',
        b'{"type": "ADDED", "object": {}}',
        b'{"type": "ADDED", "object": {"metadata": {"name": "a", "uid": "u"}}}',
        b'{"type": "ADDED", "object": {"metadata": {"name": "a", "resourceVersion": "1"}}}',
        b'{"type": "BOOKMARK", "object": {"metadata": {}}}',
        b'{"type": "ERROR", "object": []}',
    ],
)
def test_a_line_that_is_no_event_ends_its_watch_and_nothing_else(line: bytes) -> None:
    """The reflector watches anew."""
    with pytest.raises(Unreachable, match="WATCH /claims: no event of the API"):
        watch_event("/claims", line)


def test_an_error_in_a_watch_is_that_error() -> None:
    """410: the version is too old."""
    status = b'{"kind": "Status", "metadata": {}, "code": 410, "message": "too old"}'
    with pytest.raises(Expired, match="too old"):
        watch_event("/claims", b'{"type": "ERROR", "object": ' + status + b"}")


async def test_one_object_that_is_nested_deeply_keeps_no_watch_from_going_on() -> None:
    """What comes behind it is seen."""
    events = [f'{{"type": "ADDED", "object": {claim(name, 5000)}}}' for name in ("hostile", "b")]
    body = "".join(f"{event}\n" for event in events).encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body)
            await writer.drain()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        settings = Configuration(host=f"http://127.0.0.1:{port}")
        async with Client(settings, patience=5.0, manager="m") as client:
            seen = [event["object"]["metadata"]["name"] async for event in client.watch(CLAIMS, "1", {})]
    assert seen == ["hostile", "b"]


@pytest.mark.parametrize("change", [b'"RENAMED"', b'"added"', b'""', b"null", b"1"])
def test_what_an_event_of_an_unknown_type_says_a_list_shows(change: bytes) -> None:
    """It counted as a change to the object that it has; watched anew it would come once more."""
    metadata = b'{"metadata": {"name": "a", "uid": "u", "resourceVersion": "1"}}'
    with pytest.raises(Expired, match="nobody knows"):
        watch_event("/claims", b'{"type": ' + change + b', "object": ' + metadata + b"}")
