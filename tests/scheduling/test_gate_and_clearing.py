"""A pod does not lose its gate and its devices at once: kube-scheduler would bind it by what it has seen of them."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from apportion.cluster.kinds import CLAIMS, PODS, ResourceKind
from apportion.errors import Unanswered
from apportion.scheduling.writing.backgroundwrites import BackgroundWrites
from apportion.scheduling.writing.writer import Writer
from tests.observedcluster import Json, ObservedCluster
from tests.scheduling.queued import fleet
from tests.scheduling.reservedahead import reserved_ahead

TRIES = 1500
"""More than a float can be doubled."""


class Slow:
    """An API server with one pod and its claim; it waits before it answers to who reads the pod."""

    def __init__(self, pod: Json, claim: Json) -> None:
        self._objects = {PODS: pod, CLAIMS: claim}
        self.asked, self.answers = asyncio.Event(), asyncio.Event()
        self.patched: list[tuple[str, Any]] = []
        """Plural of the kind and body of each patch."""

    async def get(self, kind: ResourceKind, _name: str, **_params: str) -> Json:
        if kind == PODS:
            self.asked.set()
            await self.answers.wait()
        return self._objects[kind]

    async def patch(self, kind: ResourceKind, _name: str, body: Any, **_params: str) -> Json:
        self.patched.append((kind.plural, body))
        return self._objects[kind]


def writing(world: ObservedCluster, server: Any) -> BackgroundWrites:
    writer = Writer(server, fence=lambda: None, now=lambda: datetime(2026, 1, 2, tzinfo=UTC))
    return BackgroundWrites(
        world.snapshot, writer, world.recorder(server), clock=world.clock, wake=lambda: None
    )


async def test_a_pod_keeps_its_gate_while_its_claim_is_cleared() -> None:
    """It was read with its gate, and its allocation goes; its other claim has its devices now, so that the gate could go."""
    world = fleet({"n1": ("h100", 1)})
    pod, claim = reserved_ahead(world)
    server = Slow(pod, claim)
    writes = writing(world, server)
    writes.clear(world.claim_value(claim), "others wait for the devices", "stalled")
    await server.asked.wait()
    writes.ungate([world.pod_value(pod)])
    await asyncio.sleep(0.01)
    server.answers.set()
    await writes.finished()
    assert server.patched[-1] == ("resourceclaims", _cleared(claim))
    assert "pods" not in [kind for kind, _ in server.patched]
    writes.ungate([world.pod_value(pod)])
    await writes.finished()
    last, _ = server.patched.pop()
    assert last == "pods", "what becomes of the claim then, the watch shows"


class Losing(Slow):
    """It does not answer to the first removal of a gate, which may come yet."""

    async def patch(self, kind: ResourceKind, _name: str, body: Any, **params: str) -> Json:
        answered = await super().patch(kind, _name, body)
        if kind == PODS and params.get("sub") != "status" and not self.asked.is_set():
            self.asked.set()
            raise Unanswered("PATCH: TimeoutError")
        return answered


async def test_a_claim_is_not_cleared_while_a_removal_of_its_pods_gate_may_come_yet() -> None:
    """The request was not answered; it is made anew, and with the answer all is known."""
    world = fleet({"n1": ("h100", 1)})
    pod, claim = reserved_ahead(world)
    server = Losing(pod, claim)
    writes = writing(world, server)
    writes.ungate([world.pod_value(pod)])
    await writes.answered()
    for _ in range(2):
        writes.clear(world.claim_value(claim), "others wait for the devices", "stalled")
        world.clock.now += 1
        writes.ungate([])
        await writes.finished()
    assert [plural for plural, _ in server.patched] == ["pods"] * 4  # each time the node is nominated first


async def test_a_replica_does_not_hand_on_the_lease_while_a_removal_of_a_gate_may_come_yet() -> None:
    """The next one might give the pod's devices to others."""
    world = fleet({"n1": ("h100", 1)})
    pod, claim = reserved_ahead(world)
    server = Losing(pod, claim)
    writes = writing(world, server)
    writes.ungate([world.pod_value(pod)])
    await writes.finished()
    assert writes.open
    world.gone(PODS, pod)
    writes.ungate([])
    assert not writes.open


class Failing(Slow):
    """Whatever looks at pods before they are changed is down for so many tries."""

    left = TRIES

    async def patch(self, kind: ResourceKind, _name: str, body: Any, **params: str) -> Json:
        if params.get("sub") == "status":
            return self._objects[kind]
        if self.left:
            self.left -= 1
            raise Unanswered("PATCH: 500 failed calling webhook", status=500)
        return await super().patch(kind, _name, body)


async def test_a_gate_goes_whenever_pods_can_be_changed_at_last() -> None:
    """However many tries it takes."""
    world = fleet({"n1": ("h100", 1)})
    pod, claim = reserved_ahead(world)
    server = Failing(pod, claim)
    writes = writing(world, server)
    for _ in range(TRIES + 1):
        assert server.patched == []
        writes.ungate([world.pod_value(pod)])
        await writes.finished()
        world.clock.now += 30
    assert [plural for plural, _ in server.patched] == ["pods"]


def _cleared(claim: Json) -> Json:
    metadata = claim["metadata"]
    return {
        "metadata": {"resourceVersion": metadata["resourceVersion"], "uid": metadata["uid"]},
        "status": {"allocation": None},
    }
