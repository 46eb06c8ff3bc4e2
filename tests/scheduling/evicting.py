"""Pods that have devices and may be evicted, and an evictor that a test steers."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.dra.allocation import Allocation
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod
from apportion.errors import Unanswered
from apportion.scheduling.cycle import Cycle
from apportion.scheduling.preemption.evictor import Refused
from tests.observedcluster import Json, ObservedCluster, request
from tests.quota.tenants import namespace, quota
from tests.scheduling.queued import fleet

GROUP = "apportion.dev/pod-group"
"""Label of the pods of a group."""
SEARCHED = 1.5
"""Seconds after which victims are searched again."""


@dataclass
class SteeredEvictor:
    """Lets pods end as the watch would show it; a protected one stays."""

    world: ObservedCluster
    protected: Collection[str] = ()
    """Pods (names) that a budget protects."""
    protected_late: Collection[str] = ()
    """Those that it protects only when they are asked for in earnest."""
    unseen: Collection[str] = ()
    """Those whose end the watch does not show yet."""
    unanswered: Collection[str] = ()
    """Those whose eviction is not answered the first time, whether they end or not."""
    evicted: list[str] = field(default_factory=list)

    async def refusal(self, pods: Sequence[Pod]) -> Refused | None:
        found = [pod for pod in pods if pod.name in self.protected]
        return Refused(found[0], "PodDisruptionBudget keep needs it") if found else None

    async def evict(self, pod: Pod) -> Refused | None:
        if pod.name in {*self.protected, *self.protected_late}:
            return Refused(pod, "PodDisruptionBudget keep needs it")
        self.evicted.append(pod.name)
        if pod.name not in self.unseen:
            mark_ending(self.world, pod.name)
        if pod.name in self.unanswered:
            self.unanswered = [name for name in self.unanswered if name != pod.name]
            raise Unanswered("POST eviction: TimeoutError")
        return None


@dataclass
class Trial:
    """A cluster of GPUs with preemption on, and what it does in passes."""

    world: ObservedCluster
    cycle: Cycle
    evictor: SteeredEvictor

    @property
    def evicted(self) -> list[str]:
        """Pods that were evicted, in order."""
        return self.evictor.evicted

    async def passes(self, count: int = 2) -> None:
        """Make passes, far enough apart for a search in each."""
        for _ in range(count):
            self.world.clock.now += SEARCHED
            self.cycle.once()
            for claim in tuple(self.world.snapshot.claims.values()):
                allocation = self.world.snapshot.allocation(claim)
                if claim.allocation is None and allocation is not None:
                    written(self.world, claim, allocation)
            for _ in range(5):
                await asyncio.sleep(0)


def trial(client: Client, gpus: int, *, nodes: int = 1, **preemption: str) -> Trial:
    """Return nodes with so many GPUs each, and a policy by which pods go at once, of lower priority unless it says otherwise."""
    world = fleet({f"n{number + 1}": ("h100", gpus) for number in range(nodes)})
    settings = {"mode": "LowerPriority", "after": "0s", "minRuntime": "0s", "cooldown": "60s", **preemption}
    # Nothing is reserved for those that wait: what becomes of freed devices is decided by preemption alone.
    world.policy("p", preemption=settings, queue={"mostReserved": 0})
    evictor = SteeredEvictor(world)
    return Trial(world, world.cycle(client, evictor=evictor), evictor)


def holds(
    world: ObservedCluster,
    name: str,
    *gpus: int,
    priority: int = 0,
    node: str = "n1",
    age: float = 3600.0,
    metadata: Json | None = None,
    team: str = "team",
    **spec: Any,
) -> None:
    """Let a pod of a namespace have GPUs on a node, since `age` seconds."""
    claim = world.claim(name, request("gpu", count=len(gpus)), namespace=team)
    pod = world.pod(name, name, spec={"nodeName": node, "priority": priority, **spec}, namespace=team)
    pod["metadata"] |= metadata or {}
    world.see(PODS, pod)
    stamp = world.time(-age)
    user = {"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}
    world.allocate(claim, node, *(f"gpu-{each}" for each in gpus), timestamp=stamp, reservedFor=[user])


def waits(
    world: ObservedCluster, name: str, gpus: int, priority: int = 0, team: str = "team", **spec: Any
) -> None:
    """Let a pod of a namespace wait for so many GPUs."""
    world.claim(name, request("gpu", count=gpus), namespace=team)
    world.pod(name, name, gates=(GATE,), spec={"priority": priority, **spec}, namespace=team)


def joins(
    world: ObservedCluster,
    *names: str,
    gpus: int = 1,
    priority: int = 5,
    least: int | None = None,
    team: str = "team",
    group: str = "g",
    **said: str,
) -> None:
    """Let pods wait that are a group; `said`: further annotations."""
    for name in names:
        waits(world, name, gpus, priority, team)
        pod = next(each for each in world.snapshot.pods.values() if each.name == name)
        raw = {
            "metadata": {
                "name": name,
                "namespace": team,
                "uid": pod.uid,
                "labels": {GROUP: group},
                "annotations": {f"{GROUP}-min-count": str(least or len(names)), **said},
            },
            "spec": {
                "schedulingGates": [{"name": GATE}],
                "resourceClaims": [{"name": name, "resourceClaimName": name}],
                "priority": priority,
                "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
            },
        }
        world.see(PODS, raw)


def mark_ending(world: ObservedCluster, name: str) -> None:
    """Show that a pod is being deleted."""
    found = next(pod for pod in world.snapshot.pods.values() if pod.name == name)
    spec: Json = {"nodeName": found.node, "priority": found.priority}
    spec["resourceClaims"] = [{"name": each.name, "resourceClaimName": each.claim} for each in found.claims]
    metadata = {
        "name": name,
        "namespace": found.namespace,
        "uid": found.uid,
        "labels": dict(found.labels),
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    }
    if found.group is not None:
        metadata["annotations"] = {"apportion.dev/pod-group-min-count": str(found.group.least)}
    world.see(PODS, {"metadata": metadata, "spec": spec})


def ends(world: ObservedCluster, *names: str) -> None:
    """Show that pods are gone and their claims with them, as those of a template are."""
    for name in names:
        pod = next(pod for pod in world.snapshot.pods.values() if pod.name == name)
        for kind, uid in ((PODS, pod.uid), (CLAIMS, _claim(world, name).uid)):
            world.gone(kind, {"metadata": {"name": name, "namespace": pod.namespace, "uid": uid}})


def _claim(world: ObservedCluster, name: str) -> Claim:
    """Return the claim of this name, which only one namespace has."""
    return next(claim for claim in world.snapshot.claims.values() if claim.name == name)


def written(world: ObservedCluster, claim: Claim, allocation: Allocation) -> None:
    """Show that a decision was written, as of now."""
    raw = {"metadata": {"name": claim.name, "namespace": claim.namespace, "uid": claim.uid}}
    requests = [request("gpu", count=len(allocation.results))]
    raw["spec"] = {"devices": {"requests": requests}}
    world.allocate(
        raw, str(allocation.node), *(each.device.name for each in allocation.results), timestamp=world.time()
    )


def loses_its_devices(world: ObservedCluster, name: str) -> None:
    """Show that kube-scheduler reserved a claim, could not place its pod, and took the allocation back."""
    claim = _claim(world, name)
    assert claim.allocation is not None
    [pod] = world.snapshot.users(claim)
    if pod.gates:
        world.pod(pod.name, name, spec={"priority": pod.priority})
    requests = [request("gpu", count=len(claim.allocation.results))]
    raw: Json = {"metadata": {"name": name, "namespace": "team", "uid": claim.uid}}
    raw["spec"] = {"devices": {"requests": requests}}
    devices = [each.device.name for each in claim.allocation.results]
    user = {"resource": "pods", "name": pod.name, "uid": pod.uid}
    world.allocate(raw, str(claim.allocation.node), *devices, timestamp=world.time(), reservedFor=[user])
    world.see(CLAIMS, {"metadata": raw["metadata"], "spec": raw["spec"]})


def starts(world: ObservedCluster, name: str) -> None:
    """Show that the pod of a claim was bound with its devices."""
    claim = _claim(world, name)
    assert claim.allocation is not None
    pod = next(pod for pod in world.snapshot.pods.values() if pod.name == name)
    gpus = [int(each.device.name.removeprefix("gpu-")) for each in claim.allocation.results]
    node, team = str(claim.allocation.node), claim.namespace
    metadata: Json = {"labels": dict(pod.labels)}
    if pod.group is not None:
        metadata["annotations"] = {f"{GROUP}-min-count": str(pod.group.least)}
    holds(world, name, *gpus, priority=pod.priority, node=node, age=0.0, team=team, metadata=metadata)


def cohort(made: Trial, *teams: str, reclaims: bool = True, **guaranteed: int) -> dict[str, Json]:
    """Add a quota for each team, all of one cohort; `guaranteed`: GPUs, 0 unless it says so."""
    found = {}
    for team in teams:
        namespace(made.world, team, team=team)
        found[team] = quota(
            made.world, team, cohort="x", reclaims=reclaims, guaranteed=guaranteed.get(team, 0)
        )
    return found
