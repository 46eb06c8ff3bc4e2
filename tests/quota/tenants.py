"""Tenants: namespaces with quotas, and claims of their pods, in an observed cluster."""

from typing import Any

from apportion.cluster.kinds import CLAIMS, NAMESPACES, NODES, PODS, QUOTAS
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.queued import fleet

GPUS = {"name": "gpus", "deviceClass": "gpu"}


def cluster(devices: int = 8, *tenants: str) -> ObservedCluster:
    """Return a node with so many GPUs, and a namespace for each tenant, with the label `team`."""
    world = fleet({"n1": ("h100", devices)})
    world.see(
        NODES,
        {
            "metadata": {"name": "n1"},
            "status": {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "500"}},
        },
    )
    for name in tenants:
        namespace(world, name, team=name)
    return world


def namespace(world: ObservedCluster, name: str, **labels: str) -> Json:
    """Add a namespace, or change its labels."""
    return world.see(NAMESPACES, {"metadata": {"name": name, "labels": labels}})


def quota(
    world: ObservedCluster,
    name: str,
    *resources: Json,
    cohort: str | None = None,
    team: str = "",
    reclaims: bool = False,
    **gpus: Any,
) -> Json:
    """Add a quota for the tenant of its name, or of `team`; `gpus`: guarantee, limit and weight of GPUs; `reclaims`: it takes and gives back."""
    spec = {
        "namespaceSelector": {"matchLabels": {"team": team or name}},
        "resources": [*resources] or [GPUS | gpus],
    }
    spec |= {"cohort": cohort} if cohort else {}
    spec |= {"reclaimWithinCohort": "Any"} if reclaims else {}
    raw: Json = {"metadata": {"name": name}, "spec": spec}
    return world.see(QUOTAS, raw)


def wait(
    world: ObservedCluster,
    team: str,
    name: str,
    *requests: Json,
    count: int = 1,
    priority: int = 0,
    at: int = 0,
) -> Json:
    """Let a pod with a claim of its name wait in a namespace, and return the claim; without requests it asks for so many GPUs. `at`: seconds, its age."""
    created = f"2026-01-01T00:{at // 60:02}:{at % 60:02}Z"
    metadata = {"name": name, "namespace": team, "creationTimestamp": created}
    wanted = [*requests] or [request("gpu", count=count)]
    claim = world.see(CLAIMS, {"metadata": dict(metadata), "spec": {"devices": {"requests": wanted}}})
    spec: Json = {"resourceClaims": [{"name": "c", "resourceClaimName": name}], "priority": priority}
    spec["containers"] = [{"name": "main", "resources": {"requests": {"cpu": "10m"}}}]
    world.see(PODS, {"metadata": dict(metadata), "spec": spec})
    return claim


def leave(world: ObservedCluster, team: str, name: str) -> None:
    """Let a pod and its claim go."""
    for kind in (PODS, CLAIMS):
        uid = f"uid-{team}-{kind.plural}-{name}"
        world.gone(kind, {"metadata": {"name": name, "namespace": team, "uid": uid}})


def said(world: ObservedCluster, name: str, reason: str) -> list[str]:
    """Return what warnings with this reason said about an object."""
    return [text for about, why, text in world.messages if (about, why) == (name, reason)]
