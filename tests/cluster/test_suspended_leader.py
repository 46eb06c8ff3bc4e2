"""A leader whose machine stood still for longer than its term, while another one led, allocated, and gave the lease back."""

import time

import pytest
from aiohttp import web

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, CLASSES, EVENTS, LEASES
from apportion.settings import LeaseSettings
from testbed.eventually import eventually
from tests.clock import Clock
from tests.cluster.apiserver import ApiServer
from tests.cluster.emptyserver import client, server
from tests.cluster.leases import leads, lease, running
from tests.cluster.replica import NAMESPACE, devices, hold, holder, replica, two_devices
from tests.observedcluster import ObservedCluster

__all__ = ["client", "server"]


@pytest.mark.parametrize("seconds", [60, 0], ids=["before its renewal", "between renewal and answer"])
async def test_a_term_of_another_one_in_between_ends_its_own(
    server: ApiServer, client: Client, seconds: float
) -> None:
    """It has not observed what the other one allocated, and must catch up before it acts."""
    clock = Clock()
    first, second = lease(NAMESPACE, "a", clock), lease(NAMESPACE, "b", clock)
    await first._attempt(client)

    def stands_still(request: web.Request) -> None:
        """Let the renewal arrive after the term of the other one."""
        if request.method == "PUT" and server.get(LEASES, "test", NAMESPACE)["spec"]["holderIdentity"] == "a":
            server.fault = lambda _: None
            for holder in ("b", ""):
                found = server.get(LEASES, "test", NAMESPACE)
                spec = found["spec"] | {"holderIdentity": holder, "leaseDurationSeconds": 1}
                spec["leaseTransitions"] += 1
                server.put(LEASES, {**found, "spec": spec})

    if seconds:
        await second._attempt(client)
        clock.now += seconds
        async with running(second, client):
            await eventually(lambda: leads(second))
        assert server.get(LEASES, "test", NAMESPACE)["spec"]["holderIdentity"] == ""
    else:
        server.fault = stands_still
    async with running(first, client):
        await eventually(lambda: leads(first))
        await first._attempt(client)
        assert first.terms == 2


async def test_a_term_goes_on_where_others_only_annotate_the_lease(server: ApiServer, client: Client) -> None:
    """The renewal meets a conflict; nobody else has led."""
    only = lease(NAMESPACE, "a", Clock())
    await only._attempt(client)
    found = server.get(LEASES, "test", NAMESPACE)
    server.put(LEASES, {**found, "metadata": {**found["metadata"], "annotations": {"example.com/by": "x"}}})
    await only._attempt(client)
    assert only.gained.is_set()
    assert only.terms == 1
    assert (
        server.get(LEASES, "test", NAMESPACE)["metadata"]["resourceVersion"]
        != found["metadata"]["resourceVersion"]
    )


async def test_it_does_not_give_away_what_the_other_one_gave(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its watch has not shown that yet."""
    two_devices(server)
    server.put(CLASSES, ObservedCluster().device_class("gpu"))
    jump, gettime = [0.0], time.clock_gettime
    monkeypatch.setattr(time, "clock_gettime", lambda which: gettime(which) + jump[0])

    def waits(name: str, device_class: str) -> None:
        made = ObservedCluster().claim(name, annotations={"apportion.dev/allocation": "Immediate"})
        made["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = device_class
        server.put(CLAIMS, made)

    waits("before", "gpu")
    waits("theirs", "late")
    waits("next", "late")
    async with replica(server, LeaseSettings(renew=0.5)):

        async def allocated() -> bool:
            return len(devices(server)) == 1

        await eventually(allocated)
        left = ({"gpu-0", "gpu-1"} - {*devices(server).values()}).pop()
        # One moment in which this replica does not run, and a minute goes by.
        await server.hang(CLAIMS)
        theirs = server.get(CLAIMS, "theirs", "team")
        ObservedCluster().allocate(theirs, "n1", left)
        server.put(CLAIMS, theirs)
        hold(server, "other")
        hold(server, "")
        jump[0] = 60.0

        async def has_the_lease() -> bool:
            return holder(server) == "replica"

        await eventually(has_the_lease)
        server.put(CLASSES, ObservedCluster().device_class("late"))

        async def is_decided() -> bool:
            says = [raw for raw in server.all(EVENTS) if raw["involvedObject"]["name"] == "next"]
            return "next" in devices(server) or any(raw["reason"] == "NotAllocated" for raw in says)

        await eventually(is_decided)
    assert "next" not in devices(server)
    assert len(set(devices(server).values())) == len(devices(server)) == 2
