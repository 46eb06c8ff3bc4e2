"""A stand-by that sees the leader's term end without a renewal has the server confirm what it observed before it leads."""

from collections import Counter

import pytest
from aiohttp import web

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS
from testbed.eventually import eventually
from tests.clock import Clock
from tests.cluster.apiserver import ApiServer, failed
from tests.cluster.leases import has_tried, leads, lease, running
from tests.cluster.replica import LEASE, claim, devices, hold, replica, two_devices
from tests.observedcluster import ObservedCluster

MANY = 501
"""Claims whose kind is confirmed by a bookmark, not by a list."""


@pytest.mark.slow
async def test_many_claims_are_confirmed_by_a_watch_that_is_opened_before_the_term_ends(
    server: ApiServer,
) -> None:
    """A bookmark comes one to two seconds after the watch: that is how long no replica would act."""
    two_devices(server)
    for number in range(MANY):
        server.put(CLAIMS, ObservedCluster().claim(f"idle-{number}"))
    claim(server, "only")
    hold(server, "predecessor", seconds=3)

    def unless_watched(request: web.Request) -> web.Response | None:
        watches = [path for _, path in server.requests if "/resourceclaims?" in path and "watch" in path]
        watched = any("timeoutSeconds=3&" in f"{path}&" for path in watches)
        wins = request.method == "PUT" and request.path.endswith(LEASE)
        return failed(503, "the term has not ended for me") if wins and not watched else None

    server.fault = unless_watched
    async with replica(server):

        async def allocated() -> dict[str, str]:
            return devices(server)

        await eventually(allocated)


async def test_the_end_of_a_term_is_announced_once_unless_it_is_renewed(
    client: Client, namespace: str
) -> None:
    """Every kind is watched anew then, which costs the server something."""
    notices: list[float] = []
    clock, tries = Clock(), Counter[str]()
    first = lease(namespace, "a", Clock())
    second = lease(namespace, "b", clock, tries, ending=lambda: notices.append(clock.now))
    assert await first._take(client)  # wins, and is heard of once more
    began = clock.now
    async with running(second, client):
        await has_tried(tries, "b")
        clock.now += 14
        await has_tried(tries, "b")
        assert await first._take(client)
        await has_tried(tries, "b")
        clock.now += 14
        await has_tried(tries, "b")
        assert not notices
        clock.now += 0.5
        await eventually(lambda: _times(notices), lambda times: times == [began + 28.5])
        await has_tried(tries, "b")
        assert second.remaining() == 0
        clock.now += 1
        await eventually(lambda: leads(second))
    assert notices == [began + 28.5]


async def _times(notices: list[float]) -> list[float]:
    return notices
