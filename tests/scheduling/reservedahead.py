"""A claim made for one pod from a template, as the operator finds and leaves it."""

from typing import Any

from apportion.api.contract import GATE
from apportion.cluster.kinds import CLAIMS
from apportion.dra.pod import Pod
from tests.observedcluster import ObservedCluster

Json = dict[str, Any]


def owner(pod: Json) -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "controller": True, **_identity(pod)}


def consumer(pod: Json) -> Json:
    return {"resource": "pods", **_identity(pod)}


def pod_and_claim(
    world: ObservedCluster, name: str = "p", *, gates: tuple[str, ...] = (GATE,), **spec: Any
) -> tuple[Json, Json]:
    """A pod and the claim of its name that was made for it."""
    pod = world.pod(name, name, gates=gates, spec=spec)
    return pod, world.claim(name, ownerReferences=[owner(pod)])


def reserved_ahead(
    world: ObservedCluster,
    name: str = "p",
    node: str = "n1",
    device: str = "gpu-0",
    *,
    gates: tuple[str, ...] = (GATE,),
    timestamp: str = "2026-01-01T00:00:00Z",
    **spec: Any,
) -> tuple[Json, Json]:
    """The same with an allocation that is reserved for the pod."""
    pod, claim = pod_and_claim(world, name, gates=gates, **spec)
    world.allocate(claim, node, device, timestamp=timestamp, reservedFor=[consumer(pod)])
    return pod, claim


def deallocate(world: ObservedCluster, claim: Json) -> Json:
    claim["status"] = {}
    return world.see(CLAIMS, claim)


def value(world: ObservedCluster, pod: Json) -> Pod:
    return world.snapshot.pods[pod["metadata"]["uid"]]


def _identity(pod: Json) -> Json:
    return {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
