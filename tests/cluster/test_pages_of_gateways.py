"""A gateway that does not find the API server answers 404 with a page: nobody knows by it what there is, or what was done."""

from collections.abc import Awaitable, Callable, Iterator

import pytest
from aiohttp import web

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, DEFRAGS, PODS
from apportion.dra.allocation import Allocation
from apportion.errors import Missing, Unanswered
from apportion.scheduling.demands.waiting import WaitingDemand
from tests.cluster.apiserver import ApiServer, Fault
from tests.observedcluster import ObservedCluster
from tests.scheduling.test_gate_and_clearing import writing

PAGE = "<html><body>default backend - 404</body></html>"
DEVICE = {"request": "gpu", "driver": "d", "pool": "n1", "device": "gpu-0"}


def page(_request: web.Request) -> web.Response:
    """Answer as a gateway that has no backend."""
    return web.Response(status=404, text=PAGE, content_type="text/html")


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.get(PODS, "p", namespace="team"),
        lambda client: client.patch(CLAIMS, "c", {}, namespace="team"),
        lambda client: client.delete(PODS, "p", namespace="team"),
        lambda client: client.create(PODS, {}, namespace="team", under="p/eviction"),
    ],
    ids=["get", "patch", "delete", "evict"],
)
async def test_an_object_is_not_gone_by_the_page_of_a_gateway(
    ask: Callable[[Client], Awaitable[object]],
) -> None:
    """Who takes it for gone gives its devices to others."""
    async with ApiServer().serving() as server, server.client() as client:
        server.fault = page
        with pytest.raises(Unanswered, match="default backend"):
            await ask(client)


async def test_a_kind_that_is_not_served_is_missing() -> None:
    """The API server says so by a text; no object of it is asked for before it is listed."""
    async with ApiServer().serving() as server, server.client() as client:
        server.fault = lambda _: web.Response(status=404, text="404 page not found\n")
        with pytest.raises(Missing):
            await client.list(DEFRAGS)


async def test_a_write_that_may_come_late_keeps_its_devices_when_a_gateway_does_not_find_the_server() -> None:
    """The allocation was not answered, and its withdrawal gets the page: the devices were free, and the allocation came."""
    world = ObservedCluster()
    async with ApiServer().serving() as server, server.client() as client:
        claim = server.put(CLAIMS, world.claim("c"))
        world.snapshot.observe(CLAIMS, "MODIFIED", claim)
        value = world.claim_value(claim)
        answer = Allocation.from_json({"devices": {"results": [DEVICE]}})
        writes = writing(world, client)
        answers: Iterator[Fault] = iter([lambda _: None, lambda _: web.Response(status=504), page])

        def fault(request: web.Request) -> web.Response | None:
            return next(answers)(request)

        server.fault = fault
        world.snapshot.assume(value, answer)
        writes.write(WaitingDemand((value,)), [(value, answer)], since=None)
        await writes.answered()
        assert writes.unknown == 1
        world.clock.now += 60
        writes.settle()
        await writes.answered()
        assert world.snapshot.state.holders(answer.results[0].device)
        assert writes.unknown == 1
