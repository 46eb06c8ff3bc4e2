"""The figures of a large cluster: phases in, one JSON object and a table out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table

from bench.operatorprobe import Passes
from bench.scale.world import World


@dataclass(frozen=True, slots=True)
class Phase:
    """What the operator did about one thing."""

    name: str
    count: int
    """How many objects it was about; 0: none."""
    seconds: float
    """Until it was done: the last claim allocated, the last object written, the end of the window."""
    cpu: float
    """The operator's CPU seconds until it was idle after that."""
    passes: Passes
    extra: Mapping[str, float] = field(default_factory=dict)

    @property
    def per_cpu_second(self) -> float:
        """Objects by the operator's CPU seconds."""
        return self.count / self.cpu if self.cpu else 0.0

    def to_json(self) -> Mapping[str, Any]:
        """Return the part of the JSON line."""
        return {
            "count": self.count,
            "seconds": round(self.seconds, 3),
            "cpuSeconds": round(self.cpu, 3),
            **({"perCpuSecond": round(self.per_cpu_second, 1)} if self.count else {}),
            "passes": self.passes.count,
            "passMeanMs": round(self.passes.mean_ms, 2),
            "passAtMostMs": round(self.passes.longest_ms, 2),
            **{key: round(value, 3) for key, value in self.extra.items()},
        }


def line(world: World, kubernetes: str, load: Sequence[float], phases: Sequence[Phase]) -> Mapping[str, Any]:
    """Return the JSON line."""
    return {
        "bench": "scale",
        "kubernetes": kubernetes,
        "nodes": world.nodes,
        "pods": world.pods,
        "claims": world.claims,
        "published": str(world.published),
        "partitions": world.partitions,
        "load": [round(value, 2) for value in load],
        **{phase.name: phase.to_json() for phase in phases},
    }


def table(world: World, phases: Sequence[Phase]) -> Table:
    """Return a row for each phase."""
    found = Table(
        title=f"{world.nodes:,} nodes x 8 GPUs ({world.published}), {world.pods:,} pods, {world.claims:,} claims"
    )
    found.add_column("phase", no_wrap=True)
    for name in (
        *("objects", "seconds", "CPU s", "a CPU s"),
        *("passes", "mean, ms", "at most, ms", "further"),
    ):
        found.add_column(name, justify="right")
    for one in phases:
        found.add_row(
            one.name,
            f"{one.count:,}" if one.count else "",
            f"{one.seconds:.2f}",
            f"{one.cpu:.2f}",
            f"{one.per_cpu_second:,.0f}" if one.count else "",
            str(one.passes.count),
            f"{one.passes.mean_ms:.1f}",
            f"{one.passes.longest_ms:,.0f}" if one.passes.count else "",
            ", ".join(f"{key} {value:,.1f}" for key, value in one.extra.items()),
        )
    return found
