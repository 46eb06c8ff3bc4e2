"""What protects the page, without a cluster: hosts, methods, headers, wrong addresses, and a page that cannot begin."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession, web
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import ApportionError
from apportion.web.paging import paging
from apportion.web.protection import HEADERS, host_of, protection
from apportion.web.server import _listen
from testbed.ports import free_ports


@pytest.mark.parametrize(
    ("header", "host"),
    [
        ("localhost:8090", "localhost"),
        ("LOCALHOST", "localhost"),
        ("127.0.0.1:1", "127.0.0.1"),
        ("[::1]:8090", "[::1]"),
        ("localhost.", "localhost"),
        ("localhost.evil.example:80", "localhost.evil.example"),
        ("evil.example@localhost:80:80", ""),
        ("[::1].evil.example", ""),
        ("localhost:port", ""),
        ("", ""),
    ],
)
def test_the_host_of_a_header_is_all_but_its_port(header: str, host: str) -> None:
    """What is no host is none, so that it is never one that is allowed."""
    assert host_of(header) == host


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """Serve one page behind the protection, for `gpu.example` too."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="found")

    app = web.Application(middlewares=[protection(frozenset(("gpu.example",)))])
    app.router.add_get("/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    [port] = free_ports(1)
    await _listen(runner, port)
    yield f"http://127.0.0.1:{port}/"
    await runner.cleanup()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:1", 200),
        ("[::1]:1", 200),
        ("gpu.example", 200),
        ("evil.example", 421),
        ("gpu.example.evil", 421),
    ],
)
async def test_only_names_that_are_known_are_answered(url: str, host: str, status: int) -> None:
    """A name of others that leads to the loopback address reads nothing; it hears no word of the page."""
    async with ClientSession() as session, session.get(url, headers={"Host": host}) as answer:
        assert answer.status == status
        assert ("found" in await answer.text()) == (status == 200)
        assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
async def test_other_methods_than_get_and_head_are_refused(url: str, method: str) -> None:
    """The page can only be read."""
    async with ClientSession() as session, session.request(method, url) as answer:
        assert answer.status == 405
        assert answer.headers["Allow"] == "GET, HEAD"


async def test_a_taken_port_is_named(url: str) -> None:
    """One sentence, with the option to change."""
    runner = web.AppRunner(web.Application())
    await runner.setup()
    port = int(url.rstrip("/").rsplit(":", 1)[1])
    with pytest.raises(ApportionError, match=f"--web-port: 127.0.0.1 port {port}: .*in use"):
        await _listen(runner, port)
    await runner.cleanup()


async def test_it_listens_on_loopback_addresses_only(url: str) -> None:
    """No other address of the machine has the port."""
    port = int(url.rstrip("/").rsplit(":", 1)[1])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no other address")
        own = probe.getsockname()[0]
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(own, port)


@pytest.mark.slow
@given(rows=st.integers(0, 1000), size=st.integers(1, 60), page=st.integers(-5, 2000))
def test_pages_show_each_row_once(rows: int, size: int, page: int) -> None:
    """All pages together are all rows, and any number leads to one of them."""
    found = [paging(rows, size, number) for number in range(1, paging(rows, size, 1).pages + 1)]
    assert [index for each in found for index in range(each.start, each.end)] == list(range(rows))
    assert all(each.end - each.start <= size for each in found)
    assert paging(rows, size, page) in found
