"""Simulation: pods arrive, wait, run and end in simulated time, on nodes with whole GPUs; what decides is the operator's own cycle.

In: the nodes' rows of the openb data set, a mode of the queue, arrivals. Out: utilization, and how long whom it took to start.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from heapq import heappop, heappush
from typing import Any

from apportion.allocator.state import State
from apportion.cluster.kinds import CLAIMS, CLASSES, NODES, PODS, POLICIES, SLICES, ResourceKind
from apportion.cluster.recorder import Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.dra.runtime import MAX_RUNTIME
from apportion.scheduling.backfill.heads import members_of
from bench.observed import UnansweredApi
from testbed.cycle import MANAGER, build_cycle

EPOCH = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
LONGEST = 4 * 3600.0
"""Seconds; a tenth of the pods ran longer, up to months."""
LARGE = 8
"""GPUs of the demands that the comparison is about."""
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Arrival:
    """One pod that comes."""

    at: float
    """Seconds from the beginning."""
    devices: int
    cpu: int
    """Thousandths of a core."""
    memory: int
    """MiB."""
    runs: float
    """Seconds."""
    declares: float | None
    """Seconds; None: nothing."""


@dataclass(frozen=True, slots=True)
class Mode:
    """What is compared."""

    name: str
    reserved: int
    """`queue.mostReserved` of the policy."""
    declares: bool = True
    """Whether pods say how long they run."""


@dataclass(slots=True)
class Outcome:
    """What came of one mode."""

    waits: dict[int, list[float]] = field(default_factory=dict)
    """Seconds, by GPUs of the demand; of one that still waits at the end the time until then."""
    used: float = 0.0
    """GPU seconds after the warm-up."""
    reserved: int = 0
    """Demands for which devices were reserved with a known start."""
    late: list[float] = field(default_factory=list)
    """Seconds by which those of them started later than first expected that did, by more than a pass."""
    unserved: int = 0


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


class Simulation:
    """One mode over all arrivals."""

    def __init__(self, nodes: Sequence[Mapping[str, str]], mode: Mode) -> None:
        """`nodes`: rows of the node list."""
        self._time = SimulatedTime()
        self._mode = mode
        self._version = 0
        self._waiting: dict[str, tuple[Arrival, Json, Json]] = {}
        self._running: list[tuple[float, str]] = []
        self._objects: dict[str, tuple[Json, Json]] = {}
        self._expected: dict[str, float] = {}
        self.outcome = Outcome()
        self._snapshot = Snapshot(State(), wake=lambda: None)
        for row in nodes:
            self._node(row)
        self._observe(CLASSES, {"metadata": {"name": "gpu"}, "spec": {}})
        queue = {"reserveAfter": "60s", "mostReserved": mode.reserved}
        spec = {"deviceClasses": {"names": ["gpu"]}, "queue": queue}
        self._observe(POLICIES, {"metadata": {"name": "p"}, "spec": spec})
        client: Any = UnansweredApi()
        recorder = Recorder(
            client,
            component="bench",
            clock=self._time,
            now=lambda: datetime.fromtimestamp(self._time.epoch(), UTC),
        )
        self._cycle = build_cycle(client, self._snapshot, recorder, self._time, seconds=self._time.epoch)

    def run(self, arrivals: Sequence[Arrival], *, step: float, warm: float, until: float) -> Outcome:
        """Let all of it happen; what is used is counted from `warm` to `until`, in seconds."""
        coming = iter([*arrivals, None])
        following = next(coming)
        number = 0
        while self._time.now < until:
            while self._running and self._running[0][0] <= self._time.now:
                self._end(heappop(self._running)[1])
            while following is not None and following.at <= self._time.now:
                self._arrive(f"p{number:06}", following)
                number += 1
                following = next(coming)
            self._pass(step, warm, until)
            self._time.now += step
        for arrival, _, _ in self._waiting.values():
            if arrival.at >= warm:
                self.outcome.waits.setdefault(arrival.devices, []).append(until - arrival.at)
                self.outcome.unserved += 1
        return self.outcome

    def _pass(self, step: float, warm: float, until: float) -> None:
        before = asyncio.all_tasks()
        self._cycle.once()
        for write in asyncio.all_tasks() - before:
            write.cancel()
        for each in self._cycle.reserved:
            if each.plan.start is not None:
                name = members_of(each.head)[0].claims[0].name
                self._expected.setdefault(name, each.plan.start - EPOCH)
        for name in tuple(self._waiting):
            arrival, claim, pod = self._waiting[name]
            assumed = self._snapshot.assumed.get(claim["metadata"]["uid"])
            if assumed is None:
                continue
            del self._waiting[name]
            self._snapshot.sent(assumed, claim["metadata"]["resourceVersion"])
            now, node = self._time.now, assumed.allocation.node
            field_of = {"manager": MANAGER, "fieldsV1": {"f:status": {"f:allocation": {}}}}
            claim["metadata"]["managedFields"] = [field_of]
            claim["status"] = {
                "allocation": assumed.allocation.to_json() | {"allocationTimestamp": self._time.text()}
            }
            pod["spec"]["nodeName"] = node
            pod["status"] = {"phase": "Running", "startTime": self._time.text()}
            self._observe(CLAIMS, claim)
            self._observe(PODS, pod)
            heappush(self._running, (now + arrival.runs, name))
            over = min(now + arrival.runs, until) - max(now, warm)
            self.outcome.used += arrival.devices * max(over, 0.0)
            if arrival.at >= warm:
                self.outcome.waits.setdefault(arrival.devices, []).append(now - arrival.at)
            if (expected := self._expected.get(name)) is not None:
                self.outcome.reserved += 1
                if now > expected + step:  # a pass sees an end up to a step after it
                    self.outcome.late.append(now - expected)

    def _arrive(self, name: str, arrival: Arrival) -> None:
        declares = arrival.declares if self._mode.declares else None
        metadata = {"name": name, "namespace": "openb", "creationTimestamp": self._time.text()}
        exact = {"deviceClassName": "gpu", "count": arrival.devices}
        claim = {
            "metadata": {**metadata},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exact}]}},
        }
        requests = {"cpu": f"{arrival.cpu}m", "memory": f"{arrival.memory}Mi"}
        pod = {
            "metadata": {
                **metadata,
                "annotations": {MAX_RUNTIME: f"{declares:.0f}s"} if declares is not None else {},
            },
            "spec": {
                "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
                "containers": [{"name": "main", "resources": {"requests": requests}}],
            },
        }
        self._objects[name] = self._observe(CLAIMS, claim), self._observe(PODS, pod)
        self._waiting[name] = arrival, claim, pod

    def _end(self, name: str) -> None:
        claim, pod = self._objects.pop(name)
        self._snapshot.observe(PODS, "DELETED", pod)
        self._snapshot.observe(CLAIMS, "DELETED", claim)

    def _node(self, row: Mapping[str, str]) -> None:
        name = row["sn"]
        allocatable = {"cpu": f"{row['cpu_milli']}m", "memory": f"{row['memory_mib']}Mi", "pods": "110"}
        self._observe(NODES, {"metadata": {"name": name}, "status": {"allocatable": allocatable}})
        devices = [{"name": f"gpu-{number}"} for number in range(int(row["gpu"]))]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.example.com", "nodeName": name, "pool": pool, "devices": devices}
        self._observe(SLICES, {"metadata": {"name": name}, "spec": spec})

    def _observe(self, kind: ResourceKind, raw: Json) -> Json:
        self._version += 1
        metadata = raw["metadata"]
        metadata["uid"] = f"{kind.plural}-{metadata['name']}"
        metadata["resourceVersion"] = str(self._version)
        metadata.setdefault("creationTimestamp", self._time.text())
        self._snapshot.observe(kind, "MODIFIED", raw)
        return raw
