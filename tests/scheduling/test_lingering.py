"""Where a claim may still be prepared although it has lost its devices."""

from dataclasses import replace
from typing import Any

from apportion.api.contract import HELD
from apportion.cluster.kinds import CLAIMS, PARTITIONS, PODS
from apportion.scheduling.lingering import PATIENCE, Lingering
from tests.observedcluster import ObservedCluster as World

CLAIM = "uid-team-resourceclaims-c"
Json = dict[str, Any]


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def deallocated(world: World, claim: Json) -> Lingering:
    """Let controller-manager take the devices away."""
    claim["status"] = {}
    world.see(CLAIMS, claim)
    return noted(world, Clock())


def noted(world: World, clock: Clock) -> Lingering:
    lingering = Lingering(world.snapshot, clock)
    while world.snapshot.taken_back:
        lingering.note(world.snapshot.taken_back.popleft())
    return lingering


def used() -> tuple[World, Json, Json]:
    """A claim with a device of node n1, and the bound pod that has reserved it."""
    world = World()
    world.device_class("gpu")
    pod = world.pod("p", "c", spec={"nodeName": "n1"})
    consumer = {"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}
    claim = world.allocate(world.claim("c"), "n1", "gpu-0", reservedFor=[consumer])
    return world, claim, pod


def test_a_claim_whose_pod_was_deleted_by_force_avoids_the_node_until_its_agent_had_time_to_tell() -> None:
    """The API forgot the pod; its containers may run on."""
    world, claim, pod = used()
    world.gone(PODS, pod)
    claim["status"] = {}
    world.see(CLAIMS, claim)
    clock = Clock()
    lingering = noted(world, clock)
    assert lingering.nodes(CLAIM) == {"n1"}
    assert lingering.nodes("another") == frozenset()
    before = lingering.epoch()
    clock.now += PATIENCE
    assert lingering.epoch() != before, "who was refused is asked again"
    assert lingering.nodes(CLAIM) == frozenset()


def test_a_pod_that_has_ended_is_no_obstacle_even_if_that_is_told_late() -> None:
    """Kubelet unprepares before it says so; pods and claims come by two watches."""
    world, claim, pod = used()
    lingering = deallocated(world, claim)
    assert lingering.nodes(CLAIM) == {"n1"}, "as far as anybody knows, it runs"
    world.see(PODS, pod | {"status": {"phase": "Succeeded"}})
    assert lingering.nodes(CLAIM) == frozenset()
    world.gone(PODS, pod)
    assert lingering.nodes(CLAIM) == frozenset()


def test_a_pod_that_never_got_to_a_node_is_no_obstacle() -> None:
    """The scheduler takes allocations back from pods that it cannot place."""
    world, claim, pod = used()
    world.see(PODS, pod | {"spec": {**pod["spec"], "nodeName": ""}})
    assert deallocated(world, claim).nodes(CLAIM) == frozenset()


def test_what_an_agent_says_counts_as_long_as_it_says_so() -> None:
    """Also for an operator that has just started: a taint names the claim, or a Partition does."""
    world = World()
    taint = {"key": HELD, "value": CLAIM, "effect": "NoSchedule"}
    world.slice("n1", "s", {"devices": [{"name": "gpu-0", "taints": [taint]}]}, 1)
    spec = {"nodeName": "n2", "driver": "gpu.apportion.dev", "pool": "n2", "device": "d", "parent": "gpu-0"}
    spec |= {"profile": "1g.10gb", "origin": "Claim"}
    partition = {"metadata": {"name": "n2-d"}, "spec": spec, "status": {"preparedBy": [CLAIM]}}
    world.see(PARTITIONS, partition)
    lingering = Lingering(world.snapshot, Clock())
    assert lingering.nodes(CLAIM) == {"n1", "n2"}
    world.slice("n1", "s", {"devices": [{"name": "gpu-0"}]}, 1)
    assert lingering.nodes(CLAIM) == {"n2"}
    world.see(PARTITIONS, partition | {"status": {}})
    assert lingering.nodes(CLAIM) == frozenset()


def test_a_loss_that_nobody_asks_about_is_forgotten() -> None:
    """Claims of templates go with their pods; an operator that lives for months must not remember each."""
    world, claim, _ = used()
    claim["status"] = {}
    world.see(CLAIMS, claim)
    clock = Clock()
    lingering = Lingering(world.snapshot, clock)
    event = world.snapshot.taken_back.popleft()
    for number in range(5):
        clock.now += PATIENCE
        lingering.note(replace(event, claim=replace(event.claim, uid=f"claim-{number}")))
        assert len(lingering) == 1
