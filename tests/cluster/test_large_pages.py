"""Lists of objects that are large: what is held of an answer has a bound."""

from collections.abc import AsyncIterator

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLASSES
from apportion.cluster.reflector import Reflector
from apportion.errors import Oversized
from testbed.beside import beside
from testbed.eventually import eventually
from tests.cluster.apiserver import ApiServer
from tests.cluster.emptyserver import client
from tests.cluster.seen import Seen, a_class

__all__ = ["client"]

LARGE = 60_000
MOST = 100_000


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    """Serve small objects, and large ones behind them."""
    async with ApiServer().serving() as made:
        for number in range(12):
            size = LARGE if number >= 6 else 10
            made.put(CLASSES, a_class(f"c{number:02}") | {"padding": "x" * size})
        yield made


def limits(server: ApiServer) -> list[str]:
    """Return how many objects were asked for, in the order of the lists."""
    paths = [path for _, path in server.requests if "limit=" in path]
    return [path.partition("limit=")[2].partition("&")[0] for path in paths]


async def test_a_list_of_large_objects_is_read_in_smaller_pages(server: ApiServer, client: Client) -> None:
    """Every object is seen once, and one that is larger than any answer may be is read alone."""
    server.put(CLASSES, a_class("z") | {"padding": "x" * 3 * MOST})
    reflector = Reflector(client, CLASSES, seen := Seen(), page=16, most=MOST)
    async with beside(reflector.run()):
        await eventually(lambda: seen.has("z"))
        assert sorted(seen.names.values()) == [*(f"c{number:02}" for number in range(12)), "z"]
    assert limits(server)[:2] == ["16", "4"]
    assert limits(server)[-1] == "1"


async def test_lists_of_small_objects_are_asked_for_once(server: ApiServer, client: Client) -> None:
    """As before."""
    reflector = Reflector(client, CLASSES, seen := Seen())
    async with beside(reflector.run()):
        await eventually(lambda: seen.has("c11"))
    assert limits(server) == ["500"]


async def test_no_more_of_an_answer_is_read_than_is_taken(client: Client) -> None:
    """Who takes all of it gets all of it."""
    with pytest.raises(Oversized, match="more than 1000 bytes"):
        await client.list(CLASSES, most=1000)
    assert len((await client.list(CLASSES))["items"]) == 12
