"""Claims that have their devices when their DeviceClasses are deleted, or are no longer managed beside managed ones."""

import asyncio

import pytest

from apportion.allocator.finished import finished
from apportion.api.contract import GATE
from apportion.api.partition import Phase
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, CLASSES
from apportion.scheduling.writing.gates import Gates
from tests.observedcluster import ObservedCluster, request
from tests.scheduling.givenback import UNUSED_TIMEOUT, ended, tried
from tests.scheduling.podgroups import member, opened


def of_two_classes() -> ObservedCluster:
    """A claim that we allocated names two managed classes."""
    world = ObservedCluster()
    for name in ("gpu", "nic"):
        world.device_class(name)
    world.node("n1")
    world.slice("n1", "s", {"devices": [{"name": f"gpu-{number}"} for number in range(3)]}, 1)
    world.allocate(world.claim("c", request("gpu"), request("nic")), "n1", "gpu-0", "gpu-1")
    return world


def change(world: ObservedCluster, how: str) -> None:
    """Delete one of its classes, or take its label off."""
    second = world.seen[CLASSES, "", "nic"]
    if how == "deleted":
        world.gone(CLASSES, second)
    else:
        second["metadata"]["labels"] = {}
        world.see(CLASSES, second)


@pytest.mark.parametrize("how", ["deleted", "not managed"])
def test_the_gate_of_a_pod_opens_whatever_became_of_the_classes_of_what_it_has(how: str) -> None:
    """Nobody asks for the classes of a claim that is allocated: kubelet and kube-scheduler do not either."""
    world = of_two_classes()
    world.pod("p", "c", gates=[GATE])
    change(world, how)
    assert opened(world) == ["p"]


@pytest.mark.parametrize("how", ["deleted", "not managed"])
def test_a_group_counts_a_pod_whatever_became_of_the_classes_of_what_it_has(how: str) -> None:
    """Else the other members would wait for one that waits for nothing."""
    world = of_two_classes()
    world.allocate(world.claim("d"), "n1", "gpu-2")
    member(world, "p", "c")
    member(world, "q", "d")
    change(world, how)
    assert opened(world) == ["p", "q"]


@pytest.mark.parametrize("how", ["deleted", "not managed"])
async def test_a_pod_gets_its_other_devices_whatever_became_of_the_classes_of_those_that_it_has(
    unanswered: Client, how: str
) -> None:
    """Its claims hang together as before."""
    world = of_two_classes()
    world.claim("late")
    world.pod("p", "c", "late", gates=[GATE])
    change(world, how)
    before = asyncio.all_tasks()
    world.cycle(unanswered).once()
    assert world.places() == {"c": "n1", "late": "n1"}
    await ended(before)


def test_the_gate_opens_though_the_class_of_what_another_driver_allocated_is_gone() -> None:
    """That driver's chart was renamed, and its claim is in use: nothing of it is ours but the gate."""
    world = ObservedCluster()
    theirs = world.device_class("theirs", other="x")
    world.node("n1")
    first = world.pod("first", "c", spec={"nodeName": "n1"})
    user = {"resource": "pods", "name": "first", "uid": first["metadata"]["uid"]}
    world.allocate(world.claim("c", request("theirs")), "n1", "x", by="kube-scheduler", reservedFor=[user])
    world.pod("p", "c", gates=[GATE])
    world.gone(CLASSES, theirs)
    assert opened(world) == ["p"]


@pytest.mark.parametrize("how", ["deleted", "not managed"])
def test_what_we_allocated_is_waited_for_as_before_whatever_became_of_its_classes(how: str) -> None:
    """Until no other claim has the same device, the partition is cut, and the finalizer is there."""
    world = of_two_classes()
    world.pod("p", "c", gates=[GATE])
    change(world, how)
    uid, gates = world.seen[CLAIMS, "team", "c"]["metadata"]["uid"], Gates(world.snapshot)
    assert finished(gates.open(contested=frozenset({uid}), phase=lambda _: None)) == []
    assert finished(gates.open(contested=frozenset(), phase=lambda _: Phase.CREATING)) == []
    claim = world.seen[CLAIMS, "team", "c"]
    claim["metadata"]["finalizers"] = []
    world.see(CLAIMS, claim)
    assert opened(world) == []


async def test_what_another_allocator_chose_is_not_given_back_when_its_class_is_gone(
    unanswered: Client,
) -> None:
    """The pod may start with it; only our own allocation would be given to those that wait."""
    world = ObservedCluster()
    world.device_class("gpu")
    theirs = world.device_class("theirs", other="x")
    world.node("n1")
    world.slice("n1", "s", {"devices": [{"name": "gpu-0"}]}, 1)
    world.allocate(world.claim("c", request("theirs")), "n1", "gpu-0", by="kube-scheduler")
    world.pod("p", "c", "missing", gates=[GATE])
    world.wait_for("waiting", request("gpu"))
    world.gone(CLASSES, theirs)
    cycle = world.cycle(unanswered)
    for _ in range(3):
        assert await tried(cycle) == []
        world.clock.now += UNUSED_TIMEOUT + 1
