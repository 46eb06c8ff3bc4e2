"""The counters of a run at one moment.

In: a prepared cluster. Out: time, the operator's metrics and passes, and the CPU time and memory of every process.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from bench.endtoend.cluster import OPERATOR, Cluster
from bench.operatorprobe import OperatorProbe, Passes
from bench.usage import Usage, own_usage, usages


@dataclass(frozen=True, slots=True)
class Reading:
    """What was counted so far."""

    at: float
    """Seconds of `time.monotonic`."""
    metrics: Mapping[str, float]
    passes: Passes
    usage: Mapping[str, Usage]

    @property
    def operator(self) -> Usage:
        """What the operator spent; zeros while it does not run."""
        return self.usage.get(OPERATOR, Usage(0.0, 0, 0))

    @classmethod
    async def of(cls, cluster: Cluster, probe: OperatorProbe) -> "Reading":
        """Read everything."""
        metrics, passes = await probe.metrics(), await probe.passes()
        return cls(time.monotonic(), metrics, passes, {**usages(cluster.pids), "bench": own_usage()})

    def since(self, earlier: "Reading", metric: str) -> int:
        """Return by how much a counter has grown."""
        return int(self.metrics.get(metric, 0) - earlier.metrics.get(metric, 0))
