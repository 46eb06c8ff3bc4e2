"""The figures of a storm: times and counts in, one line of JSON out."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.endtoend.cluster import OPERATOR
from bench.endtoend.requests import Counts
from bench.poison.poisons import Poison
from bench.poison.stormplan import StormPlan
from bench.span import Span
from bench.usage import MIB

_LOST = 'apportion_lease_changes_total{change="lost"}'
_TAKE_BACKS = "apportion_take_backs_total"
_EVENTS = ("create events", "patch events", "update events")


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
