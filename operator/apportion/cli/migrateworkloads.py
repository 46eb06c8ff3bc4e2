"""Workloads: the objects that make pods, with the pod specs inside them.

In: decoded objects, of a file or of a cluster. Out: one Workload for each pod spec, without those that a controller made for another
object that is looked at itself.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from apportion.cluster.kinds import PODS, ResourceKind
from apportion.dra import reading
from apportion.dra.reading import Json
from apportion.errors import BrokenInput

_PATHS: Mapping[str, tuple[str, ...]] = {
    "Pod": (),
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
"""Where the pod is inside each kind; a JobSet has several, a LeaderWorkerSet one or two."""
KINDS = (*_PATHS, "JobSet", "LeaderWorkerSet")
"""Kinds that are looked at."""
WORKLOADS = (
    ResourceKind("apps", "v1", "deployments", "Deployment", namespaced=True),
    ResourceKind("apps", "v1", "statefulsets", "StatefulSet", namespaced=True),
    ResourceKind("apps", "v1", "daemonsets", "DaemonSet", namespaced=True),
    ResourceKind("apps", "v1", "replicasets", "ReplicaSet", namespaced=True),
    ResourceKind("batch", "v1", "jobs", "Job", namespaced=True),
    ResourceKind("batch", "v1", "cronjobs", "CronJob", namespaced=True),
    PODS,
    ResourceKind("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", namespaced=True),
    ResourceKind("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet", namespaced=True),
)
"""The same kinds, and where their objects live."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One pod spec of one object."""

    kind: str
    namespace: str
    name: str
    source: Json
    """The object."""
    path: tuple[str | int, ...]
    """Where the pod is inside the object."""
    pods: int
    """How many pods it makes at once; a DaemonSet makes one for each node, and is looked at for one."""

    @property
    def key(self) -> str:
        """For people; of a JobSet with the number of the job, of a LeaderWorkerSet with the template."""
        part = f"[{self.path[2]}]" if self.kind in {"JobSet", "LeaderWorkerSet"} else ""
        return f"{self.kind} {self.namespace}/{self.name}{part}"

    @property
    def pod(self) -> Json:
        """The pod: an object with metadata and spec."""
        found: Any = self.source
        for step in self.path:
            found = found.get(step, {}) if isinstance(found, Mapping) else found[step]
        return found if isinstance(found, Mapping) else {}


def workloads_of(objects: Iterable[Json], namespace: str = "default") -> Iterator[Workload]:
    """Yield the workloads among objects; `namespace` is that of objects that name none. Raises BrokenInput."""
    for found in objects:
        kind = found.get("kind")
        if kind not in KINDS or _is_made(found):
            continue
        metadata = reading.table(found, "metadata")
        name = reading.text(metadata, "name", at=f"{kind}: metadata", default="") or reading.text(
            metadata, "generateName", at=f"{kind}: metadata", default=""
        )
        if not name:
            raise BrokenInput(f"a {kind} has no name", field="metadata.name")
        own = reading.text(metadata, "namespace", at=f"{kind} {name}: metadata", default=namespace)
        try:
            for path, pods in _pods(str(kind), found):
                yield Workload(str(kind), own, name, found, path, pods)
        except BrokenInput as error:
            raise BrokenInput(f"{kind} {own}/{name}: {error.reason}", field=error.field) from None


def _pods(kind: str, found: Json) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """Yield where each pod is, and how many there are of it at once."""
    spec = reading.table(found, "spec")
    if kind == "JobSet":
        for number, (at, job) in enumerate(reading.rows(spec, "replicatedJobs", at="spec")):
            inside = reading.table(reading.table(job, "template", at=at), "spec", at=at)
            copies = reading.number(job, "replicas", at=at, default=1)
            path = ("spec", "replicatedJobs", number, "template", "spec", "template")
            yield path, copies * _of_job(inside, at)
        return
    if kind == "LeaderWorkerSet":
        yield from _of_leader_and_workers(found)
        return
    pods = 1
    if kind in {"Deployment", "StatefulSet", "ReplicaSet"}:
        pods = reading.number(spec, "replicas", at="spec", default=1)
    elif kind == "Job":
        pods = _of_job(spec, "spec")
    elif kind == "CronJob":
        job = reading.table(reading.table(spec, "jobTemplate", at="spec"), "spec", at="spec.jobTemplate")
        pods = _of_job(job, "spec.jobTemplate.spec")
    step: Json = found
    for key in _PATHS[kind]:
        step = reading.table(step, key)
    reading.table(step, "spec")
    yield _PATHS[kind], pods


def _of_job(spec: Json, at: str) -> int:
    """Return how many pods a Job has at once: no more than have to complete."""
    pods = reading.number(spec, "parallelism", at=at, default=1)
    return min(pods, reading.number(spec, "completions", at=at, default=pods))


def _of_leader_and_workers(found: Json) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """Yield the pods of a LeaderWorkerSet: each group has a leader and size - 1 workers; without a template of its own the leader is like a worker."""
    spec, at = reading.table(found, "spec"), "spec.leaderWorkerTemplate"
    inside = reading.table(spec, "leaderWorkerTemplate", at="spec")
    groups = reading.number(spec, "replicas", at="spec", default=1)
    size = reading.number(inside, "size", at=at, default=1)
    reading.table(reading.table(inside, "workerTemplate", at=at), "spec", at=f"{at}.workerTemplate")
    if inside.get("leaderTemplate"):
        yield ("spec", "leaderWorkerTemplate", "leaderTemplate"), groups
        size -= 1
    yield ("spec", "leaderWorkerTemplate", "workerTemplate"), groups * size


def _is_made(found: Json) -> bool:
    """Say whether a controller made an object for another one that is looked at itself."""
    owners = reading.rows(reading.table(found, "metadata"), "ownerReferences", at="metadata")
    return any(owner.get("controller") and owner.get("kind") in KINDS for _, owner in owners)
