"""Pods that name an allocated claim and cannot start: they take no room of its node from others."""

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, CLASSES, PODS
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.givenback import tried


def cpu(amount: str) -> Json:
    """Return the spec of a pod that requests so much."""
    return {"containers": [{"name": "main", "resources": {"requests": {"cpu": amount}}}]}


LARGE: Json = cpu("8")
"""All that the node has."""
PORT: Json = {"containers": [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 8080}]}]}


def shared() -> ObservedCluster:
    """A node with two devices, of which a claim has one, and a pod that waits for the other."""
    world = ObservedCluster()
    world.device_class("gpu")
    world.node("n1")
    world.slice("n1", "s", {"devices": [{"name": "gpu-0"}, {"name": "gpu-1"}]}, 1)
    world.allocate(world.claim("shared"), "n1", "gpu-0")
    return world


async def is_served(world: ObservedCluster, client: Client) -> bool:
    """Say whether the pod that waits gets its device, which no one answers."""
    cycle = world.cycle(client)
    for _ in range(3):
        await tried(cycle)
        world.clock.now += 10.0
    return any(name == "theirs" and "could not be written" in text for name, _, text in world.messages)


async def test_one_that_can_start_takes_the_room_of_its_node(unanswered: Client) -> None:
    """kube-scheduler may bind it at any moment."""
    world = shared()
    world.pod("starts", "shared", gates=[GATE], spec=LARGE)
    world.wait_for("theirs", request("gpu"))
    assert not await is_served(world, unanswered)


@pytest.mark.parametrize(
    "why", ["other gate", "unknown scheduler", "missing claim", "missing class", "claim that waits"]
)
async def test_one_that_cannot_start_leaves_the_room_to_others(unanswered: Client, why: str) -> None:
    """A tenant could keep all others off the node's other devices for ever."""
    world = shared()
    if why == "missing class":
        world.claim("more", request("unknown"))
    if why == "claim that waits":
        world.claim("more", request("gpu", count=9))
    world.pod(
        "idle",
        "shared",
        *(["more"] if why in ("missing claim", "missing class", "claim that waits") else []),
        gates=[GATE, "example.com/never"] if why == "other gate" else [GATE],
        spec=LARGE | ({"schedulerName": "nobody"} if why == "unknown scheduler" else {}),
    )
    world.wait_for("theirs", request("gpu"))
    assert await is_served(world, unanswered)


async def test_one_that_is_being_deleted_leaves_the_room_to_others(unanswered: Client) -> None:
    """A finalizer of its own keeps it for as long as its owner likes; the API server binds no such pod."""
    world = shared()
    idle = world.pod("idle", "shared", gates=[GATE], spec=LARGE)
    idle["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/mine"]}
    world.see(PODS, idle)
    world.wait_for("theirs", request("gpu"))
    assert await is_served(world, unanswered)


@pytest.mark.parametrize("gates", [[GATE], ["example.com/never"]], ids=["starts", "cannot start"])
async def test_host_ports_are_taken_by_those_that_can_start(unanswered: Client, gates: list[str]) -> None:
    """As cpu and memory are."""
    world = shared()
    world.pod("idle", "shared", gates=gates, spec=PORT)
    world.wait_for("theirs", request("gpu"), spec=PORT)
    assert await is_served(world, unanswered) == (gates != [GATE])


async def test_one_whose_class_comes_takes_the_room_from_then_on(unanswered: Client) -> None:
    """A claim of a class that somebody else's driver serves is kube-scheduler's to allocate."""
    world = shared()
    world.claim("more", request("unknown"))
    world.pod("idle", "shared", "more", gates=[GATE], spec=LARGE)
    cycle = world.cycle(unanswered)
    await tried(cycle)
    assert cycle.decider.candidates.capacity().left("n1", ["cpu"])["cpu"] == 8000
    world.see(CLASSES, {"metadata": {"name": "unknown"}, "spec": {}})
    await tried(cycle)
    assert cycle.decider.candidates.capacity().left("n1", ["cpu"])["cpu"] == 0


@pytest.mark.parametrize("why", ["pod goes", "claim goes", "claim of others goes", "less room"])
async def test_who_was_refused_for_that_room_gets_it_once_the_other_cannot_start(
    unanswered: Client, why: str
) -> None:
    """In a quiet cluster nothing else would ask about it for minutes."""
    world = shared()
    world.policy(queue={"mostReserved": 0})
    world.see(CLASSES, {"metadata": {"name": "others"}, "spec": {}})
    world.claim("more", request("others"))
    idle = world.pod("idle", "shared", "more", gates=[GATE], spec=cpu("6"))
    world.wait_for("theirs", request("gpu"), spec=cpu("4"))
    cycle = world.cycle(unanswered)
    for _ in range(10):
        cycle.once()
        world.clock.now += 10.0
    assert "theirs" not in world.places()
    gone = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/mine"]}
    if why == "pod goes":
        idle["metadata"] |= gone
        world.see(PODS, idle)
    elif why == "less room":
        world.pod("beside", spec={"nodeName": "n1", **cpu("3")}, namespace="kube-system")
    else:
        claim = world.seen[CLAIMS, "team", "shared" if why == "claim goes" else "more"]
        claim["metadata"] |= gone
        world.see(CLAIMS, claim)
    cycle.once()
    assert world.places()["theirs"] == "n1"
