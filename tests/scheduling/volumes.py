"""Volumes in two zones, and pods that use them."""

from typing import Any

from apportion.cluster.kinds import STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from tests.observedcluster import Json, ObservedCluster
from tests.scheduling.queued import fleet

ZONE = "topology.kubernetes.io/zone"


def zones(**nodes: str) -> ObservedCluster:
    """Return nodes with a device each, in these zones."""
    world = fleet(dict.fromkeys(nodes, ("h100", 1)))
    for name, zone in nodes.items():
        world.node(name, cpu="64", **{ZONE: zone})
    world.snapshot.volumes.complete = True
    return world


def with_volume(name: str = "data") -> Json:
    """Return the spec of a pod that uses a PersistentVolumeClaim."""
    return {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]}


def volume_claim(
    world: ObservedCluster, volume: str = "", asked: Json | None = None, **metadata: Any
) -> Json:
    """Show the PersistentVolumeClaim `data` of class `disks`, bound to a volume or to none. `asked`: what else its spec asks for."""
    bound = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    own = {
        "name": "data",
        "namespace": "team",
        "annotations": bound | metadata.pop("annotations", {}),
        **metadata,
    }
    spec = {
        "storageClassName": "disks",
        "volumeName": volume,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "10Gi"}},
        **(asked or {}),
    }
    return world.see(VOLUME_CLAIMS, {"metadata": own, "spec": spec})


def volume(
    world: ObservedCluster,
    zone: str,
    name: str = "pv",
    size: str = "10Gi",
    phase: str = "Available",
    metadata: Json | None = None,
    **spec: Any,
) -> Json:
    """Show a volume of a zone."""
    requirement = {"key": ZONE, "operator": "In", "values": [zone]}
    own = {
        "storageClassName": "disks",
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": size},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}},
        **spec,
    }
    made = {"metadata": {"name": name, **(metadata or {})}, "spec": own, "status": {"phase": phase}}
    return world.see(VOLUMES, made)


def storage_class(
    world: ObservedCluster,
    *zones: str,
    mode: str = "WaitForFirstConsumer",
    provisioner: str = "csi.example.com",
) -> Json:
    """Show the class `disks`, for these zones only if any are named."""
    allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}] if zones else []
    raw = {
        "metadata": {"name": "disks"},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
        "allowedTopologies": allowed,
    }
    return world.see(STORAGE_CLASSES, raw)
