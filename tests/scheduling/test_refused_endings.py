"""Allocations and finalizers whose end admission of others refuses, for ever."""

import asyncio
from typing import Any

import pytest

from apportion.api.contract import ALLOCATION_FINALIZER
from apportion.cluster.kinds import CLAIMS, ResourceKind
from apportion.errors import ApiError, BrokenInput, Unanswered
from tests.observedcluster import Json, ObservedCluster
from tests.scheduling.givenback import ended
from tests.scheduling.queued import fleet

DENIED = 'PATCH: 403 denied by policy "claims.example.com"'


class Refusing:
    """An API server that takes Events, and answers each change of a claim with an error."""

    def __init__(self, world: ObservedCluster, error: Exception) -> None:
        self._world = world
        self._error = error
        self.asked = 0
        """How often a claim was to be changed."""

    async def create(self, _kind: ResourceKind, body: Json, **_params: str) -> Json:
        """Take an Event."""
        return body

    async def get(self, kind: ResourceKind, name: str, *, namespace: str = "") -> Json:
        """Return an object."""
        return self._world.seen[kind, namespace, name]

    async def patch(self, *_args: Any, **_params: Any) -> Json:
        """Refuse it."""
        self.asked += 1
        raise self._error


def unused() -> ObservedCluster:
    """An allocation that no pod names."""
    world = fleet({"n1": ("h100", 2)})
    world.allocate(world.claim("c"), "n1", "gpu-0")
    return world


def leaving() -> ObservedCluster:
    """A claim in deletion, without devices, that has our finalizer."""
    world = fleet({"n1": ("h100", 2)})
    claim = world.claim("c", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=[ALLOCATION_FINALIZER])
    world.see(CLAIMS, claim)
    return world


async def passes(world: ObservedCluster, server: Refusing) -> None:
    """Make passes for ten minutes, one each second, what one has begun being done before the next."""
    cycle = world.cycle(server)
    for _ in range(600):
        before = asyncio.all_tasks()
        cycle.once()
        await ended(before)
        world.clock.now += 1


@pytest.mark.parametrize(
    ("world", "what"),
    [(unused(), "the end of its allocation"), (leaving(), "finalizer")],
    ids=["unused", "leaving"],
)
async def test_it_is_tried_after_pauses_that_grow_and_an_event_says_why(
    world: ObservedCluster, what: str
) -> None:
    """It was tried in each pass, and nobody learned why the claim keeps what it has."""
    server = Refusing(world, ApiError(DENIED, status=403))
    await passes(world, server)
    assert 5 <= server.asked <= 20
    said = [text for name, reason, text in world.messages if (name, reason) == ("c", "WriteFailed")]
    assert what in said[0]
    assert DENIED in said[0]


@pytest.mark.parametrize(
    "error", [Unanswered("500"), BrokenInput("no claim")], ids=["unanswered", "unreadable"]
)
async def test_what_nobody_refuses_is_tried_after_pauses_too(error: Exception) -> None:
    """No Event says that the API server has refused it."""
    world = unused()
    server = Refusing(world, error)
    await passes(world, server)
    assert 5 <= server.asked <= 20
    assert ("c", "WriteFailed") not in world.warned
