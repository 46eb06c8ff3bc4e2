"""A part of a run with steady pods: what became of the pods that were created in it, and what the operator did.

In: a timeline, the counters at its beginning and its end. Out: durations, counts, JSON.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bench.endtoend.figures import Durations
from bench.endtoend.timeline import Timeline
from bench.operatorprobe import Passes
from bench.reading import Reading


@dataclass(frozen=True, slots=True)
class Span:
    """The pods that were created in a part of a run, and the operator in that time."""

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


ROWS: tuple[tuple[str, Callable[[Span], str]], ...] = (
    ("pods created", lambda span: f"{len(span.created):,}"),
    ("allocated", lambda span: f"{span.count(span.timeline.allocated):,}"),
    ("bound", lambda span: f"{span.count(span.timeline.bound):,}"),
    ("created to allocated p50 / p99 / max, ms", lambda span: _durations(span.to_allocated)),
    ("claim seen to allocated p50 / p99 / max, ms", lambda span: _durations(span.claimed_to_allocated)),
    ("created to bound p50 / p99 / max, ms", lambda span: _durations(span.to_bound)),
    ("passes", lambda span: f"{span.passes.count:,}"),
    ("pass mean / at most, ms", lambda span: f"{span.passes.mean_ms:.1f} / {span.passes.longest_ms:,.0f}"),
    ("operator, CPU s", lambda span: f"{span.cpu:.1f} in {span.done.at - span.begun.at:.0f} s"),
)
"""What a table shows of a part: its title, and how it is printed."""


def _durations(found: Durations) -> str:
    return f"{found.p50:,.0f} / {found.p99:,.0f} / {found.longest:,.0f}"
