"""A Lease that an admission webhook does not let a replica have: the log says why nobody leads."""

import pytest
from aiohttp import web
from structlog.testing import capture_logs
from structlog.typing import EventDict

from apportion.cluster.client import Client
from apportion.cluster.kinds import LEASES
from testbed.eventually import eventually
from tests.clock import Clock
from tests.cluster.apiserver import ApiServer, failed
from tests.cluster.emptyserver import client, server
from tests.cluster.leases import leads, lease, running

__all__ = ["client", "server"]

NAMESPACE = "apportion-system"
DENIED = 'admission webhook "leases.example.com" denied the request: not by you'


def denied(request: web.Request, status: int) -> web.Response | None:
    return None if request.method == "GET" else failed(status, DENIED)


def warnings(logs: list[EventDict]) -> list[EventDict]:
    return [each for each in logs if each["log_level"] == "warning" and DENIED in str(each.get("error"))]


async def writes(server: ApiServer, count: int) -> None:
    """Wait until it was tried so many times more to write the Lease."""
    server.requests.clear()

    async def are_tried() -> bool:
        return sum(method != "GET" for method, _ in server.requests) >= count

    await eventually(are_tried)


@pytest.mark.parametrize("status", [403, 409, 500])
@pytest.mark.parametrize("exists", [False, True])
async def test_the_log_says_why_nobody_leads(
    server: ApiServer, client: Client, status: int, *, exists: bool
) -> None:
    """Once a minute, whatever status the webhook answers with."""
    if exists:
        spec = {"holderIdentity": "", "leaseDurationSeconds": 1}
        server.put(LEASES, {"metadata": {"name": "test", "namespace": NAMESPACE}, "spec": spec})
    server.fault = lambda request: denied(request, status)
    clock = Clock()
    with capture_logs() as logs:
        async with running(lease(NAMESPACE, "a", clock), client):
            await writes(server, 4)
            assert len(warnings(logs)) == 1
            clock.now += 61
            await writes(server, 2)
            assert len(warnings(logs)) == 2


async def test_the_log_says_why_a_leader_could_not_renew(server: ApiServer, client: Client) -> None:
    """Before it says that the lease is lost."""
    clock = Clock()
    only = lease(NAMESPACE, "a", clock)
    with capture_logs() as logs:
        async with running(only, client):
            await eventually(lambda: leads(only))
            server.fault = lambda request: denied(request, 409)
            await writes(server, 4)
            assert warnings(logs)


async def test_two_that_begin_at_once_are_nothing_to_warn_of(server: ApiServer, client: Client) -> None:
    """One of them is overtaken by the other, and follows."""
    first, second = lease(NAMESPACE, "a", Clock()), lease(NAMESPACE, "b", Clock())

    def other_first(request: web.Request) -> web.Response | None:
        if request.method == "POST" and not server.all(LEASES):
            server.fault = lambda _: None
            spec = {"holderIdentity": "b", "leaseDurationSeconds": 15}
            server.put(LEASES, {"metadata": {"name": "test", "namespace": NAMESPACE}, "spec": spec})
        return None

    server.fault = other_first
    with capture_logs() as logs:
        async with running(first, client), running(second, client):
            await eventually(lambda: leads(second))
    assert not [each for each in logs if each["log_level"] == "warning"]
