"""Pods that share a claim: as many of them start as fit."""

import asyncio

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.scheduling.writing.gates import Gates
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.givenback import tried
from tests.scheduling.openedgates import opened
from tests.scheduling.queued import fleet


def four_cores(**nodes: int) -> ObservedCluster:
    """Return nodes of four cores with so many devices each."""
    world = fleet({name: ("h100", count) for name, count in nodes.items()})
    for name in nodes:
        world.node(name, cpu="4", place=name)
    return world


def cores(count: int) -> Json:
    return {"containers": [{"name": "main", "resources": {"requests": {"cpu": str(count)}}}]}


def ungated(world: ObservedCluster) -> list[str]:
    return sorted(pod.name for pod in opened(Gates(world.snapshot)))


async def test_of_five_pods_that_share_a_claim_four_start_where_four_fit(unanswered: Client) -> None:
    """The fifth waits for their end, as it would without us."""
    world = four_cores(n1=1, n2=0)
    world.claim("shared")
    for number in range(5):
        world.pod(f"p{number}", "shared")
    world.cycle(unanswered).once()
    assert world.places() == {"shared": "n1"}


async def test_a_shared_claim_that_is_broken_is_said_to_be(unanswered: Client) -> None:
    """Also where no node takes all of its pods, so that a part of them is tried."""
    world = four_cores(n1=1)
    world.claim("shared", request("gpu", allocationMode="ExactCount", count=40))
    for number in range(5):
        world.pod(f"p{number}", "shared")
    world.cycle(unanswered).once()
    assert ("shared", "BrokenClaim") in world.warned
    assert ("shared", "Defect") not in world.warned


async def test_a_pod_that_fits_nowhere_keeps_only_itself_from_starting(unanswered: Client) -> None:
    """Its own claim gets nothing, and the shared one stays with those that can start."""
    world = four_cores(n1=2)
    world.claim("shared")
    world.claim("own")
    world.pod("fine", "shared")
    world.pod("lost", "shared", "own", spec={"nodeSelector": {"place": "nowhere"}})
    cycle = world.cycle(unanswered)
    cycle.once()
    assert world.places() == {"shared": "n1"}
    cycle.once()
    assert world.places() == {"shared": "n1"}
    assert ("lost", "ClaimsNotAllocated") in world.warned


@pytest.mark.parametrize("large", [3, 4])
async def test_the_node_with_room_for_most_of_them_is_chosen(unanswered: Client, large: int) -> None:
    """And there the devices have to be."""
    world = four_cores(n1=1, n2=1, n3=0)
    world.claim("taken")
    world.pod("bound", "taken", spec={"nodeName": "n1", **cores(large)})
    world.claim("shared")
    for number in range(5):
        world.pod(f"p{number}", "shared", spec={"nodeSelector": {"place": "n2" if number < 2 else "n1"}})
    world.cycle(unanswered).once()
    assert world.places()["shared"] == "n2"


async def test_the_gate_of_a_pod_that_the_node_cannot_take_stays_until_another_has_reserved_the_claim(
    unanswered: Client,
) -> None:
    """kube-scheduler would take the allocation back for its sake."""
    world = four_cores(n1=1)
    shared = world.claim("shared")
    fine = world.pod("fine", "shared", gates=[GATE])
    world.pod("lost", "shared", gates=[GATE], spec={"nodeSelector": {"place": "nowhere"}})
    world.pod("large", "shared", gates=[GATE], spec=cores(5))
    world.cycle(unanswered).once()
    assert world.places() == {"shared": "n1"}
    world.allocate(shared, "n1", "gpu-0")
    assert ungated(world) == ["fine"]
    shared["status"]["reservedFor"] = [{"resource": "pods", "name": "fine", "uid": fine["metadata"]["uid"]}]
    world.see(CLAIMS, shared)
    assert ungated(world) == ["fine", "large", "lost"]


async def test_a_pod_that_the_node_cannot_take_takes_no_room_there(unanswered: Client) -> None:
    """Another pod goes there."""
    world = four_cores(n1=2)
    shared = world.claim("shared")
    world.allocate(shared, "n1", "gpu-0")
    world.pod("large", "shared", spec=cores(5))
    world.wait_for("other", request("gpu"))
    world.cycle(unanswered).once()
    assert world.places() == {"shared": "n1", "other": "n1"}


async def test_a_claim_whose_other_pod_is_served_is_not_cleared(unanswered: Client) -> None:
    """Two pods share it; the own claim of one cannot be served on its node."""
    world = four_cores(n1=1, n2=1)
    shared = world.claim("shared")
    world.allocate(shared, "n1", "gpu-0")
    world.claim("own")
    world.pod("served", "shared")
    world.pod("late", "shared", "own")
    cycle = world.cycle(unanswered)
    assert await tried(cycle) == []


async def test_some_of_the_pods_rest_when_their_write_has_failed(unanswered: Client) -> None:
    """Their part of all claims has not the one by which these are known."""
    world = four_cores(n1=2)
    world.claim("shared")
    world.claim("own")
    world.pod("fine", "shared")
    world.pod("lost", "shared", "own", spec={"nodeSelector": {"place": "nowhere"}})
    cycle, before = world.cycle(unanswered), asyncio.all_tasks()
    cycle.once()
    assert world.places() == {"shared": "n1"}
    await asyncio.gather(*(asyncio.all_tasks() - before))
    assert world.places() == {}
    cycle.once()
    assert world.places() == {}
    world.clock.now += 1
    cycle.once()
    assert world.places() == {"shared": "n1"}


@pytest.mark.parametrize(("free", "served"), [(2, 1), (3, 2), (4, 3)])
async def test_as_many_pods_with_claims_of_their_own_start_as_there_are_devices(
    unanswered: Client, free: int, served: int
) -> None:
    """Each needs what all share and one more device, on one node; kube-scheduler would start them one by one."""
    world = four_cores(n1=free, n2=1)
    world.claim("shared")
    for number in range(4):
        world.claim(f"own-{number}")
        world.pod(f"p{number}", "shared", f"own-{number}")
    cycle = world.cycle(unanswered)
    for _ in range(3):
        cycle.once()
    assert world.places() == {"shared": "n1", **{f"own-{number}": "n1" for number in range(served)}}


async def test_nobody_waits_behind_a_pod_that_asks_for_more_than_any_node_has(unanswered: Client) -> None:
    """They share a claim, and it is the older one."""
    world = four_cores(n1=2)
    world.claim("shared")
    world.claim("large", request("gpu", count=3))
    world.claim("small")
    world.pod("a", "shared", "large")
    world.pod("b", "shared", "small")
    world.cycle(unanswered).once()
    assert world.places() == {"shared": "n1", "small": "n1"}


async def test_nobody_waits_behind_a_pod_whose_host_port_is_taken(unanswered: Client) -> None:
    """They share a claim and nothing else, and it is the oldest one."""
    ports = {"ports": [{"containerPort": 80, "hostPort": 80}]}
    spec = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}} | ports]}
    world = four_cores(n1=1)
    world.pod("other", spec=spec | {"nodeName": "n1"})
    world.claim("shared")
    world.pod("a", "shared", spec=spec)
    for name in ("b", "c"):
        world.pod(name, "shared")
    world.cycle(unanswered).once()
    assert world.places() == {"shared": "n1"}


async def test_some_of_the_pods_start_though_devices_are_reserved_for_all(unanswered: Client) -> None:
    """The node that has room for all is full, and nobody knows for how long; another one has a device and room for one of them."""
    world = four_cores(n1=1, n2=1)
    world.policy(queue={"reserveAfter": "0s"})
    world.node("n1", cpu="8")
    for node in ("n1", "n2"):
        claim = world.claim(f"on-{node}")
        world.pod(f"on-{node}", f"on-{node}", spec={"nodeName": node} | cores(1))
        world.allocate(claim, node, "gpu-0")
    world.claim("shared")
    for name in ("a", "b"):
        world.pod(name, "shared", spec=cores(3))
    cycle = world.cycle(unanswered)
    for _ in range(2):
        cycle.once()
        world.clock.now += 1.0
    assert [each.plan.nodes for each in cycle.reserved] == [{"n1"}]
    world.gone(PODS, world.pod("on-n2"))
    world.gone_claim("on-n2")
    cycle.once()
    assert world.places() == {"on-n1": "n1", "shared": "n2"}


async def test_nothing_is_reserved_that_a_pod_of_them_keeps(unanswered: Client) -> None:
    """One of them shares a running pod's claim, which keeps its device for it; what is free is for those that fit."""
    world = four_cores(n1=2)
    world.policy(queue={"reserveAfter": "0s"})
    for number in range(2):
        claim = world.claim(f"on-{number}")
        world.pod(f"on-{number}", f"on-{number}", spec={"nodeName": "n1"} | cores(1))
        world.allocate(claim, "n1", f"gpu-{number}")
    world.claim("shared")
    world.claim("own")
    world.pod("beside", "on-1", "shared", spec=cores(1))
    world.pod("other", "own", "shared", spec=cores(1))
    cycle = world.cycle(unanswered)
    for _ in range(2):
        cycle.once()
        world.clock.now += 1.0
    assert not cycle.reserved
    world.gone(PODS, world.pod("on-0"))
    world.gone_claim("on-0")
    cycle.once()
    assert world.places() == {"on-1": "n1", "shared": "n1"}


async def test_nobody_waits_behind_a_pod_that_a_claim_sends_to_another_node(unanswered: Client) -> None:
    """What it shares with a pod that runs there keeps it on that node, which has no device for the rest."""
    world = four_cores(n1=1, n2=2)
    kept = world.claim("kept")
    world.pod("runs", "kept", spec={"nodeName": "n1"})
    world.allocate(kept, "n1", "gpu-0")
    world.claim("shared")
    world.claim("own")
    world.pod("tied", "kept", "shared")
    world.pod("other", "own", "shared")
    world.cycle(unanswered).once()
    assert world.places() == {"kept": "n1", "own": "n2", "shared": "n2"}
