"""What a soak found: figures and everything that is not as it must be. Out: one line of JSON."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import orjson

from testbed.soak.memory import Growth

_OVERLAP: Final = re.compile(r" is used twice: | is used beyond its size | overlaps ")
"""What the rules say of devices, counters and hardware that two have (`testbed/violations.py`)."""

LONGEST_IDLE: Final = 180.0
"""Seconds under load within which a claim must get devices, whatever fails: disturbances in a row may take a minute and a half."""


@dataclass(slots=True)
class SoakResult:
    """One run. Times are seconds."""

    seed: int
    loaded: float = 0.0
    """For how long there was load."""
    settled: float = 0.0
    """How long it took until everything was free again."""
    pods: int = 0
    """Pods made."""
    served: int = 0
    """Pods that ran."""
    forced: int = 0
    """Pods deleted by force."""
    allocations: int = 0
    """How often claims got devices, or shares of some."""
    idle: float = 0.0
    """The longest time under load in which none did."""
    disturbances: Mapping[str, int] = field(default_factory=dict)
    faults: Mapping[str, int] = field(default_factory=dict)
    """Faults of the API server, as the proxies made them."""
    memory: Sequence[Growth] = ()
    """The longest run of each program."""
    leaks: Sequence[Growth] = ()
    violations: Sequence[str] = ()
    left: Sequence[str] = ()
    """What was still there, or could not be had, when nobody asked for anything any more."""
    complaints: Sequence[str] = ()
    """Lines of logs that speak of a defect, and signals by which programs ended."""

    @property
    def overlaps(self) -> list[str]:
        """The violations by which two had one thing at one time."""
        return [text for text in self.violations if _OVERLAP.search(text)]

    @property
    def problems(self) -> list[str]:
        """Everything that is not as it must be, in words."""
        grown = [
            f"{each.name} grew from {each.first:.0f} to {each.last:.0f} MiB in {each.seconds:.0f} s"
            for each in self.leaks
        ]
        idle = [f"for {self.idle:.0f} s no claim got devices"] if self.idle > LONGEST_IDLE else []
        return [*self.violations, *self.left, *self.complaints, *grown, *idle]

    def line(self) -> str:
        """Return the run as one line of JSON."""
        memory = {
            each.name: {
                "seconds": round(each.seconds),
                "firstMiB": round(each.first, 1),
                "lastMiB": round(each.last, 1),
                "MiBPerHour": round(each.per_hour, 1),
            }
            for each in self.memory
        }
        found = {
            "seed": self.seed,
            "loadedSeconds": round(self.loaded),
            "settledSeconds": round(self.settled),
            "pods": self.pods,
            "served": self.served,
            "forced": self.forced,
            "allocations": self.allocations,
            "idleSeconds": round(self.idle),
            "disturbances": dict(sorted(self.disturbances.items())),
            "faults": dict(sorted(self.faults.items())),
            "memory": memory,
            "overlaps": len(self.overlaps),
            "violations": len(self.violations),
            "left": len(self.left),
            "complaints": len(self.complaints),
            "leaks": len(self.leaks),
        }
        return orjson.dumps(found).decode()
