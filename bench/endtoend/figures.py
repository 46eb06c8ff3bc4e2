"""The figures of one run: times and counts in, one line of JSON out."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.endtoend.requests import Counts
from bench.endtoend.timeline import Timeline
from bench.endtoend.workload import Who, Workload
from bench.scenariorun import percentile
from bench.usage import MIB, Usage


@dataclass(frozen=True, slots=True)
class Durations:
    """From a pod's creation to something, over all pods that came so far, in milliseconds."""

    p50: float
    p99: float
    longest: float

    @classmethod
    def between(cls, created: Mapping[str, float], then: Mapping[str, float]) -> "Durations":
        """Compare two sets of times in seconds."""
        ordered = sorted(1000 * (at - created[name]) for name, at in then.items() if name in created)
        return cls(percentile(ordered, 0.5), percentile(ordered, 0.99), ordered[-1] if ordered else 0.0)

    def to_json(self) -> Mapping[str, float]:
        """Return the keys of the JSON line."""
        return {"p50": round(self.p50, 1), "p99": round(self.p99, 1), "max": round(self.longest, 1)}


@dataclass(frozen=True, slots=True)
class Figures:
    """One run."""

    who: Who
    workload: Workload
    kubernetes: str
    slices: int
    timeline: Timeline
    cpu: Mapping[str, float]
    """CPU seconds by process, from the first pod's creation to the end of the run."""
    memory: Mapping[str, Usage]
    requests: Counts
    starts: int
    """How often the operator was started; more than one: it ended in between."""
    load: tuple[float, float]
    """Load average of the last minute, before and after."""

    @property
    def bound(self) -> int:
        """Pods that were bound before the limit."""
        return len(self.timeline.bound)

    @property
    def bound_per_second(self) -> float:
        """Bound pods by the time from the first creation to the last binding."""
        return _rate(self.timeline.created, self.timeline.bound)

    @property
    def to_allocated(self) -> Durations:
        """From creation to the claim's allocation."""
        return Durations.between(self.timeline.created, self.timeline.allocated)

    @property
    def to_bound(self) -> Durations:
        """From creation to binding."""
        return Durations.between(self.timeline.created, self.timeline.bound)

    def cpu_per_pod(self, process: str) -> float:
        """Return milliseconds of CPU time by bound pod."""
        return 1000 * self.cpu.get(process, 0.0) / max(self.bound, 1)

    def requests_per_pod(self, client: str) -> float:
        """Return requests by bound pod."""
        return sum(self.requests.get(client, Counter()).values()) / max(self.bound, 1)

    def to_json(self) -> Mapping[str, Any]:
        """Return the JSON line."""
        work, times = self.workload, self.timeline
        return {
            "bench": "endtoend",
            "who": str(self.who),
            "devices": str(work.devices),
            "nodes": work.nodes,
            "pods": work.pods,
            "rate": work.rate,
            "stay": work.stay,
            "kubernetes": self.kubernetes,
            "slices": self.slices,
            "created": len(times.created),
            "allocated": len(times.allocated),
            "bound": self.bound,
            "createdPerSecond": round(_rate(times.created, times.created), 2),
            "allocatedPerSecond": round(_rate(times.created, times.allocated), 2),
            "boundPerSecond": round(self.bound_per_second, 2),
            "createdToAllocatedMs": self.to_allocated.to_json(),
            "createdToBoundMs": self.to_bound.to_json(),
            "cpuSeconds": {name: round(spent, 2) for name, spent in self.cpu.items()},
            "cpuMsPerPod": {name: round(self.cpu_per_pod(name), 2) for name in self.cpu},
            "peakMiB": {name: round(usage.peak / MIB) for name, usage in self.memory.items()},
            "requestsPerPod": {name: round(self.requests_per_pod(name), 2) for name in self.requests},
            "requests": {name: dict(counts.most_common()) for name, counts in self.requests.items()},
            "operatorStarts": self.starts,
            "load": [round(value, 2) for value in self.load],
        }


def _rate(begun: Mapping[str, float], done: Mapping[str, float]) -> float:
    if not done:
        return 0.0
    return len(done) / max(max(done.values()) - min(begun.values()), 1e-3)
