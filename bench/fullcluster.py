"""FullCluster: nodes of which pods use all devices, many pods that wait, and the operator's own cycle over them.

In: the number of nodes, whether devices are reserved, whether there are quotas. Out: the CPU milliseconds of the pass (`Cycle.once`) after one
pod's end, on a cluster that is made full again after it.

Every node has eight devices, each used by a pod of its own; one pod in ten declares how long it runs, and so do all on the first nodes, where
reservations then have a known start. The eight oldest that wait want a whole node, the others one, two or four devices; one
in ten declares one of four runtimes. Time is simulated: a pass each second.
"""

import asyncio
import gc
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from apportion.allocator.state import State
from apportion.cluster.kinds import CLAIMS, CLASSES, NAMESPACES, NODES, PODS, POLICIES, QUOTAS, SLICES
from apportion.cluster.recorder import Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import PROTECTION_FINALIZER
from apportion.dra.runtime import MAX_RUNTIME
from apportion.scheduling.cycle import Cycle
from bench.observed import ROOM, Json, UnansweredApi, managed, observe, own_namespace, quota
from testbed.cycle import MANAGER, build_cycle

WAITING = 1000
"""Pods that wait."""
HEADS = 8
"""Those of them that want a whole node, for which devices are reserved."""
DEVICES = 8
"""Of a node."""
_TENANTS = 8
_DRIVER = "gpu.example.com"
_EPOCH = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
_SETTLING = 40
"""Passes in the beginning: at most one reservation is made in each."""
_COUNTS = (1, 1, 1, 2, 2, 4)
"""Devices of those that want no whole node, in turns."""
_RUNTIMES = ("30m", "1h", "2h", "4h")


@dataclass(slots=True)
class _Objects:
    """A claim and its pod, as they were last shown."""

    claim: Json
    pod: Json
    count: int
    """Devices that the claim asks for."""


@dataclass(slots=True)
class FullCluster:
    """One cluster."""

    nodes: int
    reserved: int
    """`queue.mostReserved` of the policy."""
    quotas: bool
    seconds: float = 0.0
    """Simulated, since the beginning."""
    made: int = 0
    """Pods so far."""
    version: int = 1
    """The latest resourceVersion."""
    waiting: dict[str, _Objects] = field(default_factory=dict)
    """By UID of the claim."""
    running: dict[str, list[_Objects]] = field(default_factory=dict)
    """By node."""
    snapshot: Snapshot = field(default_factory=lambda: Snapshot(State(), wake=lambda: None))
    cycle: Cycle = field(init=False)

    def __post_init__(self) -> None:
        """Fill it, and let devices be reserved; needs a running event loop."""
        names = [f"node-{number:04}" for number in range(self.nodes)]
        self._show_cluster(names)
        for at, node in enumerate(names):
            for device in range(DEVICES):
                declares = f"{at + 2}h" if at < HEADS // 2 else "12h" if self.made % 10 == 0 else ""
                self._start(self._arrive(1, declares), node, [f"gpu-{device}"])
        self.seconds = 3600.0
        for number in range(WAITING):
            self._wait(DEVICES if number < HEADS else _COUNTS[number % len(_COUNTS)])
        client: Any = UnansweredApi()
        recorder = Recorder(client, component="bench", clock=lambda: self.seconds, now=self._now)
        self.cycle = build_cycle(
            client, self.snapshot, recorder, lambda: self.seconds, seconds=lambda: _EPOCH + self.seconds
        )
        self.seconds += 60.0
        for _ in range(_SETTLING):
            self._pass()
        if len(self.cycle.reserved) != self.reserved:
            raise AssertionError(f"{len(self.cycle.reserved)} of {self.reserved} reservations were made")

    def reserved_nodes(self, *, known: bool) -> list[str]:
        """Return the nodes of reservations of which the start is known, or is not."""
        plans = [each.plan for each in self.cycle.reserved if (each.plan.start is not None) is known]
        return sorted({node for plan in plans for node in plan.nodes})

    def after_end(self, node: str) -> float:
        """Let a pod of a node end; return the CPU milliseconds of the pass after it, and make the cluster full again."""
        ended = next(each for each in self.running[node] if each.count == 1)
        self.running[node].remove(ended)
        self.snapshot.observe(PODS, "DELETED", ended.pod)
        self.snapshot.observe(CLAIMS, "DELETED", ended.claim)
        gc.collect()
        took, served = self._pass()
        for each in served:
            self._wait(each.count)
        if not served:
            [device] = ended.claim["status"]["allocation"]["devices"]["results"]
            declares = ended.pod["metadata"]["annotations"].get(MAX_RUNTIME, "")
            self._start(self._arrive(1, declares), node, [device["device"]])
        for _ in range(2):
            self._pass()
        return took

    def _show_cluster(self, names: list[str]) -> None:
        tenants = [f"tenant-{number}" for number in range(_TENANTS)]
        nodes = [{"metadata": {"name": name}, "status": {"allocatable": ROOM}} for name in names]
        observe(self.snapshot, NODES, nodes)
        observe(self.snapshot, CLASSES, [managed({"metadata": {"name": "gpu"}, "spec": {}})])
        queue = {"reserveAfter": "60s", "mostReserved": self.reserved}
        spec = {"deviceClasses": {"names": ["gpu"]}, "queue": queue}
        observe(self.snapshot, POLICIES, [{"metadata": {"name": "p"}, "spec": spec}])
        observe(self.snapshot, SLICES, [_slice(name) for name in names])
        if self.quotas:
            observe(self.snapshot, NAMESPACES, [own_namespace(name) for name in tenants])
            observe(self.snapshot, QUOTAS, [quota(name, at, ["gpu"]) for at, name in enumerate(tenants)])

    def _pass(self) -> tuple[float, list[_Objects]]:
        """Make a pass; return its CPU milliseconds, and whom it served: they are bound and run by now."""
        before = asyncio.all_tasks()
        began = time.thread_time()
        self.cycle.once()
        took = time.thread_time() - began
        for write in asyncio.all_tasks() - before:
            write.cancel()
        served: list[_Objects] = []
        for uid in tuple(self.waiting):
            assumed = self.snapshot.assumed.get(uid)
            if assumed is not None:
                each = self.waiting.pop(uid)
                self.snapshot.sent(assumed, each.claim["metadata"]["resourceVersion"])
                devices = [result.device.name for result in assumed.allocation.results]
                self._start(each, assumed.allocation.node or "", devices)
                served.append(each)
        self.seconds += 1.0
        return took * 1000, served

    def _wait(self, count: int) -> None:
        """Let a pod come that wants so many devices."""
        declares = _RUNTIMES[self.made // 10 % len(_RUNTIMES)] if self.made % 10 == 0 else ""
        made = self._arrive(count, declares)
        self._show(made)
        self.waiting[made.claim["metadata"]["uid"]] = made

    def _arrive(self, count: int, declares: str) -> _Objects:
        name, tenant = f"pod-{self.made:06}", f"tenant-{self.made % _TENANTS}"
        self.made += 1
        metadata = {"name": name, "namespace": tenant, "creationTimestamp": self._time()}
        requests = {"cpu": str(4 * count), "memory": f"{16 * count}Gi"}
        exact = {"deviceClassName": "gpu", "count": count}
        claim = {
            "metadata": {**metadata, "uid": f"claim-{name}"},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exact}]}},
        }
        pod = {
            "metadata": {
                **metadata,
                "uid": f"pod-{name}",
                "annotations": {MAX_RUNTIME: declares} if declares else {},
            },
            "spec": {
                "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
                "containers": [{"name": "main", "resources": {"requests": requests}}],
            },
        }
        return _Objects(claim, pod, count)

    def _start(self, each: _Objects, node: str, devices: list[str]) -> None:
        """Let a pod run on a node, with these devices."""
        results = [
            {"request": "gpu", "driver": _DRIVER, "pool": node, "device": device} for device in devices
        ]
        place = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        each.claim["metadata"]["finalizers"] = [PROTECTION_FINALIZER]
        each.claim["metadata"]["managedFields"] = [
            {"manager": MANAGER, "fieldsV1": {"f:status": {"f:allocation": {}}}}
        ]
        each.claim["status"] = {
            "allocation": {
                "devices": {"results": results},
                "nodeSelector": {"nodeSelectorTerms": [place]},
                "allocationTimestamp": self._time(),
            }
        }
        each.pod["spec"]["nodeName"] = node
        each.pod["status"] = {"phase": "Running", "startTime": self._time()}
        self._show(each)
        self.running.setdefault(node, []).append(each)

    def _show(self, each: _Objects) -> None:
        for kind, raw in ((CLAIMS, each.claim), (PODS, each.pod)):
            self.version += 1
            raw["metadata"]["resourceVersion"] = str(self.version)
            self.snapshot.observe(kind, "MODIFIED", raw)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(_EPOCH + self.seconds, UTC)

    def _time(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%SZ")


def _slice(node: str) -> Json:
    devices = [{"name": f"gpu-{number}"} for number in range(DEVICES)]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": _DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    return {"metadata": {"name": node}, "spec": spec}
