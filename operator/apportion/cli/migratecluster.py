"""The cluster in which a migration is rehearsed, and the workloads in it.

In: a live cluster, read only; or a file with its objects, as `kubectl get -o yaml` writes them. Out: a snapshot; workloads.
"""

from collections.abc import AsyncIterator, Iterable
from pathlib import Path

from apportion.allocator.rules.features import DEFAULT_FEATURES, Features
from apportion.allocator.state import State
from apportion.cel import Programs
from apportion.cli import document
from apportion.cluster import kinds
from apportion.cluster.client import Client, connect, require_version
from apportion.cluster.kinds import ResourceKind
from apportion.cluster.snapshot import Snapshot
from apportion.dra.reading import Json
from apportion.errors import BrokenInput, Missing

_CLUSTER = (kinds.NODES, kinds.CLASSES, kinds.SLICES, kinds.CLAIMS, kinds.PODS)
_OPTIONAL = (kinds.TAINT_RULES, kinds.PARTITIONS, kinds.POLICIES)
"""Served on some versions, or where apportion is installed."""
_WORKLOADS = (
    ResourceKind("apps", "v1", "deployments", "Deployment", namespaced=True),
    ResourceKind("apps", "v1", "statefulsets", "StatefulSet", namespaced=True),
    ResourceKind("apps", "v1", "daemonsets", "DaemonSet", namespaced=True),
    ResourceKind("apps", "v1", "replicasets", "ReplicaSet", namespaced=True),
    ResourceKind("batch", "v1", "jobs", "Job", namespaced=True),
    ResourceKind("batch", "v1", "cronjobs", "CronJob", namespaced=True),
    kinds.PODS,
)
_JOB_SETS = ResourceKind("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", namespaced=True)


def objects_of(file: Path) -> list[Json]:
    """Return the objects of a file: documents of YAML, JSON, Lists. Raises BrokenInput."""
    found: list[Json] = []
    for number, each in enumerate(document.load_all(document.read(file))):
        if not isinstance(each, dict) or not isinstance(each.get("kind"), str):
            raise BrokenInput(
                "expected an object with apiVersion and kind", field=f"{file}: document {number}"
            )
        inside = each.get("items") if each["kind"].endswith("List") else [each]
        if not isinstance(inside, list) or not all(isinstance(item, dict) for item in inside):
            raise BrokenInput("expected a list of objects", field=f"{file}: document {number}: items")
        found += inside
    return found


def snapshot_of(objects: Iterable[Json], features: Features = DEFAULT_FEATURES) -> Snapshot:
    """Return a snapshot of objects; kinds that decide nothing are left out. Raises BrokenInput for one that cannot be read."""
    snapshot = Snapshot(State(features, Programs()), wake=lambda: None)
    known = {kind.name: kind for kind in (*_CLUSTER, *_OPTIONAL)}
    for number, found in enumerate(objects):
        kind = known.get(str(found.get("kind")))
        metadata = found.get("metadata")
        if kind is None:
            continue
        if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
            raise BrokenInput(f"a {kind.name} has no name", field="metadata.name")
        uid = metadata.get("uid") or f"{kind.name}-{number}"
        snapshot.observe(kind, "ADDED", {**found, "metadata": {**metadata, "uid": uid}})
    for broken in snapshot.broken.values():
        raise BrokenInput(
            f"{broken.kind.name} {broken.name}: {broken.error.reason}", field=broken.error.field
        )
    return snapshot


async def read_cluster(
    kubeconfig: Path | None, namespace: str | None, *, workloads: bool
) -> tuple[Snapshot, list[Json]]:
    """Return a snapshot of the live cluster, and the workloads of a namespace (None: of all). Raises ApiError."""
    async with await connect(kubeconfig, manager="apportion-migrate") as client:
        features = Features.of(await require_version(client))
        found: list[Json] = []
        for kind in _CLUSTER:
            found += [each async for each in _list(client, kind)]
        for kind in _OPTIONAL:
            try:
                found += [each async for each in _list(client, kind)]
            except Missing:
                continue
        asked: list[Json] = []
        for kind in (*_WORKLOADS, _JOB_SETS) if workloads else ():
            try:
                asked += [each async for each in _list(client, kind, namespace or "")]
            except Missing:
                continue
        snapshot = Snapshot(State(features, Programs()), wake=lambda: None)
        by_name = {kind.name: kind for kind in (*_CLUSTER, *_OPTIONAL)}
        for each in found:
            snapshot.observe(by_name[each["kind"]], "ADDED", each)
        return snapshot, asked


async def _list(client: Client, kind: ResourceKind, namespace: str = "") -> AsyncIterator[Json]:
    """Yield the objects of a kind; items of a list say neither kind nor version."""
    listed = await client.list(kind, namespace=namespace)
    for each in listed["items"]:
        yield {"apiVersion": kind.api_version, "kind": kind.name, **each}
