"""Gates that admission of others refuses to have removed: of pods that have their devices."""

import asyncio
from copy import deepcopy
from typing import Any

from apportion.cluster.kinds import PODS, ResourceKind
from apportion.errors import ApiError, Unanswered
from apportion.scheduling.cycle import Cycle
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.givenback import UNUSED_TIMEOUT, ended
from tests.scheduling.queued import fleet
from tests.scheduling.reservedahead import reserved_ahead

DENIED = 'admission webhook "pods.example.com" denied the request'


class Refusing:
    """An API server that carries out changes of claims, and refuses those of pods as long as `refuses` says so; its watch shows them at once."""

    def __init__(self, world: ObservedCluster) -> None:
        self._world = world
        self.refuses = True
        self.asked = 0
        """How often a pod was to be changed."""

    async def create(self, _kind: ResourceKind, body: Json, **_params: str) -> Json:
        """Take an Event."""
        return body

    async def get(self, kind: ResourceKind, name: str, *, namespace: str = "") -> Json:
        """Return an object."""
        return self._world.seen[kind, namespace, name]

    async def patch(
        self, kind: ResourceKind, name: str, body: Any, *, namespace: str, **_params: str
    ) -> Json:
        """Change an object."""
        raw = self._world.seen[kind, namespace, name]
        if kind == PODS:
            self.asked += 1
            if self.refuses:
                raise ApiError(f"PATCH: 403 {DENIED}", status=403)
            if any(each["op"] == "remove" for each in body):
                raw["spec"]["schedulingGates"] = []
        else:
            raw["metadata"] |= {k: v for k, v in body["metadata"].items() if k != "resourceVersion"}
            raw.setdefault("status", {}).update(body.get("status") or {})
        return self._world.see(kind, raw)


async def passes(world: ObservedCluster, cycle: Cycle, seconds: float, *, each: float = 2.0) -> None:
    """Make a pass `each` so many seconds, what one has begun being done before the next."""
    for _ in range(int(seconds / each)):
        before = asyncio.all_tasks()
        cycle.once()
        await ended(before)
        world.clock.now += each


def refused() -> tuple[ObservedCluster, Refusing, Cycle]:
    """A pod that has the only device, and another one that waits for it."""
    world = fleet({"n1": ("h100", 1)})
    reserved_ahead(world)
    world.wait_for("waiting", request("gpu"))
    server = Refusing(world)
    return world, server, world.cycle(server)


def said(world: ObservedCluster) -> list[str]:
    return [text for name, reason, text in world.messages if (name, reason) == ("p", "WriteFailed")]


async def test_its_removal_is_tried_after_pauses_that_grow_and_an_event_says_why() -> None:
    """Two changes of each such pod were asked for in each pass, and nobody learned of it."""
    world, server, cycle = refused()
    await passes(world, cycle, 10.0, each=0.1)
    assert server.asked < 40
    assert DENIED in said(world)[0]


async def test_devices_go_to_others_after_the_time_in_which_a_scheduler_takes_a_pod() -> None:
    """The pod does not start, and nobody else would get them."""
    world, _, cycle = refused()
    await passes(world, cycle, UNUSED_TIMEOUT - 10)
    assert world.places().get("waiting") is None
    await passes(world, cycle, UNUSED_TIMEOUT)
    assert world.places().get("waiting") == "n1"


async def test_a_scheduler_has_the_whole_time_once_the_gate_has_gone() -> None:
    """The webhook lets it go at last."""
    world, server, cycle = refused()
    await passes(world, cycle, UNUSED_TIMEOUT - 40)
    server.refuses = False
    await passes(world, cycle, 40.0)
    assert world.seen[PODS, "team", "p"]["spec"]["schedulingGates"] == []
    await passes(world, cycle, UNUSED_TIMEOUT - 45)
    assert world.places().get("p") == "n1"


async def test_a_removal_that_fails_once_is_nothing_to_warn_of() -> None:
    """A server restarts, or the pod has lost another gate just now."""
    world, server, cycle = refused()
    await passes(world, cycle, 0.2, each=0.1)
    server.refuses = False
    await passes(world, cycle, 10.0)
    assert world.seen[PODS, "team", "p"]["spec"]["schedulingGates"] == []
    assert said(world) == []


class Late(Refusing):
    """A server that removes the gate without an answer, and whose watch does not show it; a later try finds no gate."""

    async def patch(self, kind: ResourceKind, name: str, body: Any, *, namespace: str, **params: str) -> Json:
        """Change an object."""
        if kind != PODS:
            return await super().patch(kind, name, body, namespace=namespace, **params)
        self.asked += 1
        if self.gone is not None:
            raise ApiError("PATCH: 422 the server rejected our request", status=422)
        if any(each["op"] == "remove" for each in body):
            raw = deepcopy(self._world.seen[kind, namespace, name])
            raw["spec"]["schedulingGates"] = []
            self.gone = raw
        raise Unanswered("PATCH: 504 Timeout")

    gone: Json | None = None
    """The pod as it is, and as the watch does not show it."""

    async def get(self, kind: ResourceKind, name: str, *, namespace: str = "") -> Json:
        """Return an object."""
        if kind == PODS and self.gone is not None:
            return self.gone
        return await super().get(kind, name, namespace=namespace)


async def test_a_gate_that_went_without_an_answer_is_none_that_is_refused() -> None:
    """A busy server carries it out, says nothing, and its watch is late by half a minute: it was asked again and again, and an Event said that it refuses."""
    world = fleet({"n1": ("h100", 1)})
    reserved_ahead(world)
    server = Late(world)
    await passes(world, world.cycle(server), 30.0, each=0.1)
    assert said(world) == []
    assert server.asked < 8
