"""Pauses of what fails: twice as long each time, until it has been well for a while."""

import asyncio
from typing import Any

import pytest

from apportion.cluster.kinds import CLAIMS, ResourceKind
from apportion.errors import ApiError, Overtaken, Unanswered
from apportion.scheduling.writing.pauses import Pauses
from tests.clock import Clock
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.givenback import ended
from tests.scheduling.queued import fleet


def test_a_pause_is_twice_as_long_as_the_one_before_up_to_the_longest() -> None:
    """Whether the next failure comes at its end or somewhat later."""
    clock = Clock()
    pauses = Pauses(clock, first=1.0, longest=5.0)
    found = []
    for late in (0.0, 5.0, 0.0, 0.0, 0.0):
        found.append(pauses.begin("a"))
        assert "a" in pauses
        clock.now += found[-1] + late
        assert "a" not in pauses
    assert found == [1, 2, 4, 5, 5]
    assert pauses.begin("b", least=60) == 60


def test_what_has_been_well_for_a_while_begins_with_the_first_pause() -> None:
    """So does what has succeeded."""
    clock = Clock()
    pauses = Pauses(clock, first=1.0, longest=5.0)
    pauses.begin("a")
    clock.now += 6.5
    assert pauses.begin("a") == 1
    assert pauses.begin("a") == 2
    pauses.end("a")
    assert pauses.begin("a") == 1


def test_pauses_that_no_longer_count_are_forgotten() -> None:
    """Claims come and go for months."""
    clock = Clock()
    pauses = Pauses(clock, first=1.0, longest=5.0)
    for number in range(10_000):
        pauses.begin(str(number))
        clock.now += 1
    assert len(pauses._known) < 100


class Refusing:
    """An API server that carries out all writes but those of an allocation to claim `kept-out`, and whose watch shows them at once."""

    def __init__(self, world: ObservedCluster, error: ApiError) -> None:
        self._world = world
        self._error = error
        self.asked = 0
        """How often that allocation was to be written."""

    async def create(self, _kind: ResourceKind, body: Json, **_params: str) -> Json:
        """Take an Event."""
        return body

    async def get(self, kind: ResourceKind, name: str, *, namespace: str = "") -> Json:
        """Return an object."""
        return self._world.seen[kind, namespace, name]

    async def patch(
        self, kind: ResourceKind, name: str, body: Any, *, namespace: str, sub: str = "", **_params: str
    ) -> Json:
        """Change a claim."""
        if name == "kept-out" and sub == "status":
            self.asked += 1
            raise self._error
        raw = self._world.seen[kind, namespace, name]
        assert kind == CLAIMS or not sub
        if kind == CLAIMS:
            raw["metadata"] |= {k: v for k, v in body["metadata"].items() if k != "resourceVersion"}
            raw.setdefault("status", {}).update(body.get("status") or {})
        return self._world.see(kind, raw)


@pytest.mark.parametrize(
    "error",
    [
        ApiError("403 denied by a webhook", status=403),
        Overtaken("409 denied by a webhook", status=409),
        Unanswered("500 failed calling webhook", status=500),
    ],
    ids=lambda error: str(error.status),
)
async def test_others_are_served_while_one_claim_cannot_be_written(error: ApiError) -> None:
    """It kept the device, because what became of its write is not known for a while, and was the first to get it after that."""
    world = fleet({"n1": ("h100", 1)})
    world.wait_for("kept-out", request("gpu"))
    server = Refusing(world, error)
    cycle = world.cycle(server)

    async def passes(count: int) -> None:
        for _ in range(count):
            before = asyncio.all_tasks()
            cycle.once()
            await ended(before)
            world.clock.now += 0.1

    await passes(30)
    world.wait_for("other", request("gpu"))
    await passes(100)
    assert server.asked < 10
    assert world.places()["other"] == "n1"
