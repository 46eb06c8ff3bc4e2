"""The figures of a crowd: times and counts in, one line of JSON out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.crowd.crowdplan import CrowdPlan
from bench.endtoend.requests import Counts
from bench.span import Span
from bench.usage import MIB


@dataclass(frozen=True, slots=True)
class Figures:
    """One run."""

    plan: CrowdPlan
    kubernetes: str
    before: Span
    """The steady pods alone."""
    making: Span
    """While the crowd's pods were made."""
    during: Span
    """Beside the crowd that waits."""
    waiting: int
    """Claims of the crowd without devices at the end."""
    served: int
    """Pods of the crowd that were bound in the last span."""
    gpus: float
    """How many GPUs the crowd used in the last span, on average."""
    requests: Counts
    """In the last span."""
    starts: int
    load: tuple[float, float]

    @property
    def spans(self) -> tuple[tuple[str, Span], ...]:
        """The parts of the run with their names."""
        return ("before", self.before), ("making", self.making), ("during", self.during)

    def to_json(self) -> Mapping[str, Any]:
        """Return the JSON line."""
        plan, done = self.plan, self.during.done
        return {
            "bench": "crowd",
            "kubernetes": self.kubernetes,
            "nodes": plan.workload.nodes,
            "crowdedNodes": plan.crowded,
            "tenants": plan.tenants,
            "quotas": plan.quotas,
            "pods": plan.waiting,
            "rate": plan.workload.rate,
            "seed": plan.seed,
            **{name: span.to_json() for name, span in self.spans},
            "waiting": self.waiting,
            "served": self.served,
            "gpusUsed": round(self.gpus, 1),
            "operatorStarts": self.starts,
            "operatorResidentMiB": round(done.operator.resident / MIB),
            "cpuSeconds": {
                name: round(usage.cpu - self.during.begun.usage[name].cpu, 2)
                for name, usage in done.usage.items()
            },
            "requests": {name: dict(counts.most_common()) for name, counts in self.requests.items()},
            "load": [round(value, 2) for value in self.load],
        }
