"""Pods of groups, and pods that will not stand beside others."""

from collections.abc import Mapping
from typing import Any

from tests.e2e.tenant import GPU, Tenant, claim, pod, request

GROUP = "apportion.dev/pod-group"
LEAST = "apportion.dev/pod-group-min-count"
TOPOLOGY = "apportion.dev/pod-group-topology"
MODE = "apportion.dev/pod-group-topology-mode"


def member(name: str, group: str, least: str) -> dict[str, Any]:
    """Return a pod of a group with a claim of its own name."""
    raw = pod(name, name)
    raw["metadata"]["labels"][GROUP] = group
    raw["metadata"]["annotations"] = {LEAST: least}
    return raw


async def with_gpus(
    team: Tenant, name: str, group: str, least: str, count: int = 5, said: Mapping[str, str] | None = None
) -> None:
    """Make a pod of a group that asks for so many of a node's eight GPUs; `said`: further annotations."""
    await team.make(claim(name, request(GPU, count=count)))
    made = member(name, group, least)
    made["metadata"]["annotations"] |= said or {}
    await team.make(made)


def replica(name: str, index: str) -> dict[str, Any]:
    """Return a pod of the first replica of a LeaderWorkerSet of three, with a claim of its own name."""
    lws = "leaderworkerset.sigs.k8s.io/"
    raw = pod(f"{name}-0-{index}", f"{name}-0-{index}")
    raw["metadata"]["labels"] |= {lws + "name": name, lws + "group-index": "0", lws + "worker-index": index}
    raw["metadata"]["annotations"] = {lws + "size": "3"}
    return raw


_NAMESPACES = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "Exists"}]}
"""All namespaces, by their labels."""


def against(label: str, *, anywhere: bool = False) -> dict[str, Any]:
    """Return the affinity of a pod that will not stand beside pods of this label; `anywhere`: of any namespace."""
    term = {"labelSelector": {"matchLabels": {"app": label}}, "topologyKey": "kubernetes.io/hostname"}
    if anywhere:
        term["namespaceSelector"] = _NAMESPACES
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def with_disk(pod: dict[str, Any]) -> dict[str, Any]:
    """Return a pod with a disk of which a node mounts one at a time: kube-scheduler keeps two such pods apart (VolumeRestrictions), and the operator does not look at it."""
    disk = {"targetPortal": "192.0.2.1:3260", "iqn": "iqn.2001-04.com.example:disk", "lun": 0}
    pod["spec"].setdefault("volumes", []).append({"name": "disk", "iscsi": disk})
    return pod
