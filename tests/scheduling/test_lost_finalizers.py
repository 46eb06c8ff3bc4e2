"""Allocated claims whose finalizer somebody took off, as `kubectl replace` with a manifest does: the allocation is there as before."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from apportion.api.contract import ALLOCATION_FINALIZER, GATE
from apportion.cluster.kinds import CLAIMS, PODS, ResourceKind
from apportion.dra.claim import PROTECTION_FINALIZER
from apportion.errors import ApiError
from apportion.scheduling.cycle import Cycle
from tests.observedcluster import Json, ObservedCluster
from tests.scheduling.givenback import ended

HOUR = 3600.0


class Server:
    """An API server that carries out changes of claims and pods, and whose watch shows them at once; `refuses`: it takes no finalizer."""

    def __init__(self, world: ObservedCluster, *, refuses: bool = False) -> None:
        self._world = world
        self._refuses = refuses
        self.finalizers: list[list[str]] = []
        """Those that somebody wanted a claim to have."""

    async def create(self, _kind: ResourceKind, body: Json, **_params: str) -> Json:
        """Take an Event."""
        return body

    async def patch(
        self, kind: ResourceKind, name: str, body: Any, *, namespace: str, **_params: str
    ) -> Json:
        """Change an object."""
        raw = self._world.seen[kind, namespace, name]
        if kind == CLAIMS:
            self.finalizers.append(body["metadata"]["finalizers"])
            if self._refuses:
                raise ApiError("PATCH: 422 admission webhook denied the request")
            raw["metadata"]["finalizers"] = body["metadata"]["finalizers"]
        elif any(each["op"] == "remove" for each in body):
            raw["spec"]["schedulingGates"] = []
        return self._world.see(kind, raw)


def replaced(
    how: str = "shared", *, by: str = "apportion-operator", left: Sequence[str] = (), **metadata: Any
) -> ObservedCluster:
    """Return a world with a pod behind our gate and its allocated claim, which has no finalizers any more but those that are `left`.

    `how`: made for the pod from a `template`, `shared` with a pod that runs, or allocated without a pod (`immediate`).
    """
    world = ObservedCluster()
    world.device_class("gpu")
    world.node("n1")
    world.slice("n1", "s", {"devices": [{"name": "gpu-0"}]}, 1)
    pod = world.pod("p", "c", gates=[GATE])
    user = world.pod("first", "c", spec={"nodeName": "n1"}) if how == "shared" else pod
    if how == "immediate":
        metadata["annotations"] = {GATE: "Immediate"}
    elif how == "template":
        owner = {"kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"], "controller": True}
        metadata["ownerReferences"] = [owner]
    name, uid = user["metadata"]["name"], user["metadata"]["uid"]
    reserved = [] if how == "immediate" else [{"resource": "pods", "name": name, "uid": uid}]
    claim = world.allocate(world.claim("c", **metadata), "n1", "gpu-0", by=by, reservedFor=reserved)
    claim["metadata"]["finalizers"] = [*left]
    world.see(CLAIMS, claim)
    return world


async def passes(cycle: Cycle, count: int) -> None:
    """Make so many passes, what each has begun being done before the next."""
    for _ in range(count):
        before = asyncio.all_tasks()
        cycle.once()
        await ended(before)


def gates(world: ObservedCluster) -> Json:
    """Return the gates of the pod."""
    return world.seen[PODS, "team", "p"]["spec"]["schedulingGates"]


@pytest.mark.parametrize(
    ("how", "finalizer"),
    [
        ("template", PROTECTION_FINALIZER),
        ("shared", PROTECTION_FINALIZER),
        ("immediate", ALLOCATION_FINALIZER),
    ],
)
async def test_a_pod_starts_though_somebody_took_the_finalizer_off_its_claim(
    how: str, finalizer: str
) -> None:
    """It is written again, and the gate goes once the watch has shown it."""
    world = replaced(how)
    server = Server(world)
    cycle = world.cycle(server)
    await passes(cycle, 1)
    assert gates(world) == [{"name": GATE}]
    assert server.finalizers == [[finalizer]]
    await passes(cycle, 2)
    assert gates(world) == []
    assert server.finalizers == [[finalizer]]


@pytest.mark.parametrize("how", ["shared", "immediate"])
async def test_the_finalizer_of_somebody_else_is_not_enough_for_a_start(how: str) -> None:
    """controller-manager never takes the devices of a claim without its own; ours is written to the others."""
    world = replaced(how, left=["example.com/backup"])
    server = Server(world)
    cycle = world.cycle(server)
    await passes(cycle, 3)
    ours = ALLOCATION_FINALIZER if how == "immediate" else PROTECTION_FINALIZER
    assert server.finalizers == [["example.com/backup", ours]]
    assert gates(world) == []


async def test_a_finalizer_that_the_server_refuses_is_written_anew_after_a_pause_that_grows() -> None:
    """A webhook that lets nobody change claims is not asked in each pass, and users learn why the pod waits."""
    world = replaced()
    server = Server(world, refuses=True)
    cycle = world.cycle(server)
    await passes(cycle, 20)
    assert len(server.finalizers) == 1
    text = next(text for name, reason, text in world.messages if (name, reason) == ("c", "WriteFailed"))
    assert "its finalizer" in text
    assert "webhook denied" in text
    for _ in range(600):
        world.clock.now += 1
        await passes(cycle, 1)
    assert 10 <= len(server.finalizers) <= 20
    assert gates(world) == [{"name": GATE}]


async def test_the_finalizer_of_a_claim_in_deletion_is_not_written_anew() -> None:
    """The API server takes none, and no pod starts by such a claim."""
    world = replaced(deletionTimestamp="2026-01-01T00:00:00Z")
    server = Server(world)
    cycle = world.cycle(server)
    for _ in range(3):
        await passes(cycle, 1)
        world.clock.now += HOUR
    assert server.finalizers == []


async def test_claims_that_no_gated_pod_names_keep_the_finalizers_that_they_have() -> None:
    """Somebody meant to take it off a claim in use: for us it is the condition of a start only."""
    world = replaced()
    world.pod("p", "c", spec={"nodeName": "n1"})
    server = Server(world)
    await passes(world.cycle(server), 2)
    assert server.finalizers == []


async def test_a_claim_that_is_not_ours_keeps_the_finalizers_that_it_has() -> None:
    """Another allocator says by which finalizer it cleans up, if any; the gate goes all the same."""
    world = replaced(by="another")
    world.device_class("gpu", other="x")
    server = Server(world)
    await passes(world.cycle(server), 2)
    assert server.finalizers == []
    assert gates(world) == []


async def test_each_claim_of_a_group_is_protected_before_one_of_its_pods_starts() -> None:
    """Its gates go together."""
    world = replaced("immediate")
    for name in ("p", "q"):
        raw = world.pod(name, "c", gates=[GATE])
        raw["metadata"]["labels"] = {"apportion.dev/pod-group": "g"}
        raw["metadata"]["annotations"] = {"apportion.dev/pod-group-min-count": "2"}
        world.see(PODS, raw)
    server = Server(world)
    cycle = world.cycle(server)
    await passes(cycle, 1)
    assert server.finalizers == [[ALLOCATION_FINALIZER]]
    await passes(cycle, 2)
    assert gates(world) == []
    assert world.seen[PODS, "team", "q"]["spec"]["schedulingGates"] == []
