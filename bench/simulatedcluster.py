"""SimulatedCluster: simulated time, a snapshot, and the operator's own cycle over it; what it decides happens at once.

In: objects as they come, pods with a claim each. Out: which pods a pass served. The snapshot is shown what API server, kube-scheduler and
kubelet would make of a decision: a served pod is bound and runs from that moment on, until it is ended.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from apportion.allocator.state import State
from apportion.cluster.kinds import CLAIMS, PODS, ResourceKind
from apportion.cluster.recorder import Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.dra.allocation import Allocation
from apportion.dra.claim import PROTECTION_FINALIZER
from apportion.dra.runtime import MAX_RUNTIME
from bench.observed import UnansweredApi
from testbed.cycle import MANAGER, build_cycle

EPOCH = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
Json = dict[str, Any]


@dataclass(slots=True)
class SimulatedTime:
    """The clock of a simulation."""

    now: float = 0.0

    def __call__(self) -> float:
        """Return the seconds since the beginning."""
        return self.now

    def epoch(self) -> float:
        """Return the seconds since 1970."""
        return EPOCH + self.now

    def text(self) -> str:
        """Return the time as objects show it."""
        return datetime.fromtimestamp(self.epoch(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class SimulatedPod:
    """A pod with one claim of its name."""

    namespace: str
    exactly: Mapping[str, Any]
    """What its claim's request says beside its class, `gpu`."""
    requests: Mapping[str, str]
    """Of cpu and memory."""
    declares: float | None = None
    """Seconds that it says it runs at most; None: nothing."""


class SimulatedCluster:
    """Nodes, pods and the cycle; needs a running event loop."""

    def __init__(self) -> None:
        """Begin at time 0 without objects."""
        self.time = SimulatedTime()
        self.snapshot = Snapshot(State(), wake=lambda: None)
        self._version = 0
        self._waiting: dict[str, tuple[Json, Json]] = {}
        """Claim and pod, by name."""
        self._running: dict[str, tuple[Json, Json]] = {}
        client: Any = UnansweredApi()
        recorder = Recorder(
            client,
            component="bench",
            clock=self.time,
            now=lambda: datetime.fromtimestamp(self.time.epoch(), UTC),
        )
        self.cycle = build_cycle(client, self.snapshot, recorder, self.time, seconds=self.time.epoch)

    def observe(self, kind: ResourceKind, name: str, *, labels: Json | None = None, **parts: Json) -> None:
        """Let an object without a namespace be seen; `parts`: spec, status."""
        self._show(kind, {"metadata": {"name": name, "labels": labels or {}}, **parts})

    def arrive(self, name: str, made: SimulatedPod) -> None:
        """Let a pod come and wait."""
        metadata = {"name": name, "namespace": made.namespace, "creationTimestamp": self.time.text()}
        exactly = {"deviceClassName": "gpu", **made.exactly}
        claim: Json = {
            "metadata": {**metadata},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
        }
        declared = {MAX_RUNTIME: f"{made.declares:.0f}s"} if made.declares is not None else {}
        pod: Json = {
            "metadata": {**metadata, "annotations": declared},
            "spec": {
                "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
                "containers": [{"name": "main", "resources": {"requests": made.requests}}],
            },
        }
        self._show(CLAIMS, claim)
        self._show(PODS, pod)
        self._waiting[name] = claim, pod

    def end(self, name: str) -> None:
        """Let a running pod be gone."""
        claim, pod = self._running.pop(name)
        self.snapshot.observe(PODS, "DELETED", pod)
        self.snapshot.observe(CLAIMS, "DELETED", claim)

    def decide(self) -> tuple[dict[str, Allocation], float]:
        """Make a pass, and let those that it served run; returns their allocations by name, and the CPU seconds of the pass."""
        before, began = asyncio.all_tasks(), time.process_time()
        self.cycle.once()
        took = time.process_time() - began
        for write in asyncio.all_tasks() - before:
            write.cancel()
        served: dict[str, Allocation] = {}
        for name, (claim, pod) in tuple(self._waiting.items()):
            assumed = self.snapshot.assumed.get(claim["metadata"]["uid"])
            if assumed is None:
                continue
            self.snapshot.sent(assumed, claim["metadata"]["resourceVersion"])
            claim["metadata"]["finalizers"] = [PROTECTION_FINALIZER]
            claim["metadata"]["managedFields"] = [
                {"manager": MANAGER, "fieldsV1": {"f:status": {"f:allocation": {}}}}
            ]
            claim["status"] = {
                "allocation": assumed.allocation.to_json() | {"allocationTimestamp": self.time.text()}
            }
            pod["spec"]["nodeName"] = assumed.allocation.node
            pod["status"] = {"phase": "Running", "startTime": self.time.text()}
            self._show(CLAIMS, claim)
            self._show(PODS, pod)
            self._running[name] = self._waiting.pop(name)
            served[name] = assumed.allocation
        return served, took

    def _show(self, kind: ResourceKind, raw: Json) -> None:
        self._version += 1
        metadata = raw["metadata"]
        metadata["uid"] = f"{kind.plural}-{metadata['name']}"
        metadata["resourceVersion"] = str(self._version)
        metadata.setdefault("creationTimestamp", self.time.text())
        self.snapshot.observe(kind, "MODIFIED", raw)
