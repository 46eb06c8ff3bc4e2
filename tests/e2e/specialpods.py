"""Pods of groups, and affinities to and against other pods."""

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
"""All namespaces, by a selector that the operator does not follow: it learns of these terms by take-backs."""


def against(label: str, *, known: bool = False) -> dict[str, Any]:
    """Return the affinity of a pod that will not stand beside pods of this label; `known`: so that the operator knows."""
    term = {"labelSelector": {"matchLabels": {"app": label}}, "topologyKey": "kubernetes.io/hostname"}
    if not known:
        term["namespaceSelector"] = _NAMESPACES
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def beside(label: str) -> dict[str, Any]:
    """Return the affinity of a pod that stands only beside pods of this label."""
    term = {"labelSelector": {"matchLabels": {"app": label}}, "topologyKey": "kubernetes.io/hostname"}
    term["namespaceSelector"] = _NAMESPACES
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
