"""A Partition whose status or finalizer the API server refuses to change, for good: the other partitions of its card are cut and removed."""

from pathlib import Path

import pytest
from aiohttp import web

from apportion.agent.lifecycle.worker import CardWorker
from tests.agent.lifecycle.onecard import OneCard, one_card
from tests.agent.places import H100, MakeBackend
from tests.cluster.apiserver import failed

REFUSED, OTHER, THIRD = (f"gpu-0-mig-1g10gb-19-{start}" for start in range(3))


def refuse(node: OneCard, status: int) -> None:
    """Have the server refuse every change of the first one: its schema or an admission policy does (422), or it has another version (409)."""

    def fault(request: web.Request) -> web.Response | None:
        of_it = request.method == "PATCH" and f"n-{REFUSED}" in request.path
        return failed(status, "status.preparedBy[0]: Too long") if of_it else None

    node.server.fault = fault


@pytest.mark.parametrize("status", [422, 409])
async def test_a_refused_object_holds_up_no_other_partition(
    tmp_path: Path, make_backend: MakeBackend, status: int
) -> None:
    """It is the oldest one, so that each round ended with it. It is tried again, and right once it is admitted."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        first = node.partition("p1", REFUSED, profile="1g.10gb")
        leaving = node.partition("p2", OTHER, profile="1g.10gb")
        refuse(node, status)
        worker = CardWorker(node.context, "gpu-0")
        assert await worker.round() == node.context.timeouts.first_retry
        assert (node.status(first), node.status(leaving)["phase"]) == ({}, "Idle")
        node.delete(leaving)
        third = node.partition("p3", THIRD, profile="1g.10gb")
        worker.wake()
        await worker.round()
        assert node.status(third)["phase"] == "Idle"
        assert leaving["metadata"]["name"] not in node.items
        node.server.fault = lambda _: None
        worker.try_now("p1")
        await worker.round()
        assert node.status(first)["phase"] == "Idle"


async def test_a_finalizer_that_stays_holds_up_no_other_partition(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """Of an object that was never cut."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        node.delete(node.partition("p1", REFUSED, profile="1g.10gb"))
        other = node.partition("p2", OTHER, profile="1g.10gb")
        refuse(node, 422)
        await CardWorker(node.context, "gpu-0").round()
        assert node.status(other)["phase"] == "Idle"
