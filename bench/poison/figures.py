"""The figures of a storm: times and counts in, one line of JSON out."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.endtoend.cluster import OPERATOR
from bench.endtoend.figures import Durations
from bench.endtoend.requests import Counts
from bench.endtoend.timeline import Timeline
from bench.operatorprobe import Passes
from bench.poison.poisons import Poison
from bench.poison.reading import Reading
from bench.poison.stormplan import StormPlan
from bench.usage import MIB

_LOST = 'apportion_lease_changes_total{change="lost"}'
_TAKE_BACKS = "apportion_take_backs_total"
_EVENTS = ("create events", "patch events", "update events")


@dataclass(frozen=True, slots=True)
class Span:
    """The other tenant's pods that were created before the storm or during it, and the operator in that time."""

    timeline: Timeline
    begun: Reading
    done: Reading
    ended: float
    """When the run ended: a pod without devices or node has waited until then."""

    @property
    def created(self) -> Mapping[str, float]:
        """When the pods of this time were created."""
        return {name: at for name, at in self.timeline.created.items() if self.begun.at <= at < self.done.at}

    @property
    def to_allocated(self) -> Durations:
        """From the pod's creation to its claim's allocation."""
        return self._durations(self.created, self.timeline.allocated)

    @property
    def claimed_to_allocated(self) -> Durations:
        """From the moment at which the claim is first seen to its allocation, without the time in which controller-manager made the claim."""
        claimed = {name: self.timeline.claimed[name] for name in self.created.keys() & self.timeline.claimed}
        return self._durations(claimed, self.timeline.allocated)

    @property
    def to_bound(self) -> Durations:
        """From the pod's creation to its binding."""
        return self._durations(self.created, self.timeline.bound)

    def count(self, then: Mapping[str, float]) -> int:
        """Return how many of its pods came so far."""
        return len(self.created.keys() & then.keys())

    @property
    def passes(self) -> Passes:
        """The operator's passes."""
        return self.done.passes - self.begun.passes

    @property
    def cpu(self) -> float:
        """The operator's CPU seconds."""
        return self.done.operator.cpu - self.begun.operator.cpu

    def to_json(self) -> Mapping[str, Any]:
        """Return its part of the JSON line."""
        passes = self.passes
        return {
            "seconds": round(self.done.at - self.begun.at, 1),
            "created": len(self.created),
            "claimed": self.count(self.timeline.claimed),
            "allocated": self.count(self.timeline.allocated),
            "bound": self.count(self.timeline.bound),
            "createdToAllocatedMs": self.to_allocated.to_json(),
            "claimedToAllocatedMs": self.claimed_to_allocated.to_json(),
            "createdToBoundMs": self.to_bound.to_json(),
            "passes": passes.count,
            "passMeanMs": round(passes.mean_ms, 2),
            "passAtMostMs": round(passes.longest_ms, 2),
            "operatorCpuSeconds": round(self.cpu, 2),
        }

    def _durations(self, begun: Mapping[str, float], then: Mapping[str, float]) -> Durations:
        return Durations.between(begun, {name: then.get(name, self.ended) for name in begun})


@dataclass(frozen=True, slots=True)
class Figures:
    """One run."""

    plan: StormPlan
    kubernetes: str
    before: Span
    during: Span
    made: Mapping[Poison, int]
    """Objects of the attacker."""
    not_made: Mapping[Poison, int]
    attacks: int
    refused: int
    requests: Counts
    """From the first pod to the end."""
    overlaps: int
    """The most that the operator saw at once."""
    starts: int
    load: tuple[float, float]

    @property
    def lost(self) -> int:
        """How often the lease was lost."""
        return self.during.done.since(self.before.begun, _LOST)

    @property
    def events(self) -> int:
        """Events that the operator wrote."""
        written = self.requests.get(OPERATOR, Counter())
        return sum(written[what] for what in _EVENTS)

    def to_json(self) -> Mapping[str, Any]:
        """Return the JSON line."""
        plan, begun, done = self.plan, self.before.begun, self.during.done
        return {
            "bench": "poison",
            "kubernetes": self.kubernetes,
            "nodes": plan.workload.nodes,
            "seconds": plan.seconds,
            "rate": plan.workload.rate,
            "stay": plan.workload.stay,
            "claims": plan.storm.claims,
            "gang": plan.storm.gang,
            "poisonRate": plan.poison_rate,
            "before": self.before.to_json(),
            "during": self.during.to_json(),
            "poison": {str(poison): self.made.get(poison, 0) for poison in plan.storm.poisons},
            "poisonNotMade": {str(poison): number for poison, number in self.not_made.items()},
            "finalizerAttacks": {"tried": self.attacks, "refused": self.refused},
            "leaseLost": self.lost,
            "operatorStarts": self.starts,
            "operatorResidentMiB": round(done.operator.resident / MIB),
            "operatorPeakMiB": round(done.operator.peak / MIB),
            "operatorEvents": self.events,
            "overlapsAtMost": self.overlaps,
            "takeBacks": done.since(begun, _TAKE_BACKS),
            "cpuSeconds": {
                name: round(usage.cpu - begun.usage[name].cpu, 2) for name, usage in done.usage.items()
            },
            "requests": {name: dict(counts.most_common()) for name, counts in self.requests.items()},
            "load": [round(value, 2) for value in self.load],
        }
