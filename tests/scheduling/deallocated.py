"""A claim that a pod used, and that loses its devices."""

from typing import Any

from apportion.cluster.kinds import CLAIMS
from apportion.scheduling.candidates.stillprepared import StillPrepared
from tests.clock import Clock
from tests.observedcluster import ObservedCluster

Json = dict[str, Any]


def deallocated(world: ObservedCluster, claim: Json) -> StillPrepared:
    """Let controller-manager take the devices away."""
    claim["status"] = {}
    world.see(CLAIMS, claim)
    return noted(world, Clock())


def noted(world: ObservedCluster, clock: Clock) -> StillPrepared:
    still_prepared = StillPrepared(world.snapshot, clock)
    while world.snapshot.deallocations:
        still_prepared.note(world.snapshot.deallocations.popleft())
    return still_prepared


def used() -> tuple[ObservedCluster, Json, Json]:
    """A claim with a device of node n1, and the bound pod that has reserved it."""
    world = ObservedCluster()
    world.device_class("gpu")
    pod = world.pod("p", "c", spec={"nodeName": "n1"})
    consumer = {"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}
    claim = world.allocate(world.claim("c"), "n1", "gpu-0", reservedFor=[consumer])
    return world, claim, pod
