"""`python -m bench.fairness`: how evenly quotas of a cohort share a cluster, by simulation on a production cluster's nodes and pods.

In: the folder of the openb data set. Out: one JSON line per seed. All tenants always have pods waiting (`simulatedtenants.py`). Late in the run
a tenant asks for the first time, for what is guaranteed to it. Reported: Jain's index of the tenants' weighted shares, its mean and its
minimum over the passes; how many passes the late tenant waited until it had its guarantee; means over the passes of allocated milli in % of
all, with quotas, without, and without on the same nodes with other pods: by how much that differs, two runs do anyway; and of what lies idle
because it is reserved for the first of the queue. Jain, Chiu, Hawe, DEC-TR-301, 1984.
"""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Annotated

import orjson
import structlog
import typer

from bench.openb.trace import Trace, read_trace
from bench.refusals import run_command
from bench.simulatedtenants import LARGEST_LATE, LATE, LIFETIME, Run, Tenants

SETTLED = 3 * LIFETIME
"""Passes after which the run is looked at: until then the cluster fills."""


def main(
    data: Annotated[Path, typer.Option(help="The folder with the files of the data set.")],
    seed: Annotated[list[int] | None, typer.Option(help="May be repeated; default: 1 to 10.")] = None,
    nodes: Annotated[int, typer.Option(min=4, help="How many of the nodes.")] = 96,
    passes: Annotated[int, typer.Option(min=SETTLED + 1, help="How many passes.")] = 120,
    most_reserved: Annotated[
        int,
        typer.Option(
            min=0, max=64, help="For how many pods devices are reserved at once (queue.mostReserved)."
        ),
    ] = 8,
    declares: Annotated[  # noqa: FBT002 - typer makes a flag of it
        bool, typer.Option("--declares", help="Pods say how long they run, 1 to 3 times as long as they do.")
    ] = False,
) -> None:
    """Simulate each seed with quotas and without, and print one JSON line."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    trace = read_trace(data, "default")
    for number in seed or range(1, 11):
        fair, free, second = (
            asyncio.run(_run(trace, number, nodes, Run(quotas, most_reserved, draw, declares), passes))
            for draw, quotas in (("", True), ("", False), ("second", False))
        )
        line = {
            "seed": number,
            "jain": round(fmean(fair.jain), 4),
            "jainLeast": round(min(fair.jain), 4),
            "jainWithout": round(fmean(free.jain), 4),
            "latePasses": fair.late,
            "latePassesWithout": free.late,
            "allocated": round(fmean(fair.allocated), 2),
            "allocatedWithout": round(fmean(free.allocated), 2),
            "allocatedWithoutSecond": round(fmean(second.allocated), 2),
            "idle": round(fmean(fair.idle), 2),
            "idleWithout": round(fmean(free.idle), 2),
            "largeServed": [fair.large_served, free.large_served],
            "largeWait": [fair.large_wait, free.large_wait],
            "secondsPerPass": round(fair.seconds / passes, 4),
            "secondsPerPassWithout": round(free.seconds / passes, 4),
        }
        sys.stdout.write(orjson.dumps(line).decode() + "\n")
        sys.stdout.flush()


@dataclass(slots=True)
class Figures:
    """What a run showed."""

    jain: list[float] = field(default_factory=list)
    allocated: list[float] = field(default_factory=list)
    idle: list[float] = field(default_factory=list)
    """What is reserved and used by nobody, in % of all."""
    late: int | None = None
    """Passes until the late tenant had its guarantee; None: it never had."""
    seconds: float = 0.0
    """CPU seconds of all passes."""
    large_served: int = 0
    """Large pods that were served, in % of those that came."""
    large_wait: float = 0.0
    """Passes that they waited: the median."""


def jain(shares: Sequence[float]) -> float:
    """Return Jain's index: 1 where all are equal, 1/n where one has all."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0


async def _run(trace: Trace, number: int, nodes: int, run: Run, passes: int) -> Figures:
    figures, tenants = Figures(), Tenants(trace, number, nodes, run)
    late_from = passes * 2 // 3
    for step in range(passes):
        figures.seconds += tenants.advance(late=step >= late_from)
        used = tenants.used
        if step >= SETTLED:
            figures.jain.append(jain([used[name] / weight for name, weight in tenants.weights.items()]))
            figures.allocated.append(100 * used.total() / tenants.capacity)
            figures.idle.append(100 * tenants.idle() / tenants.capacity)
        has_it = used[LATE] >= tenants.guaranteed - LARGEST_LATE
        if step >= late_from and figures.late is None and has_it:
            figures.late = step - late_from + 1
    figures.large_served = round(100 * len(tenants.waits) / max(tenants.large, 1))
    figures.large_wait = median(tenants.waits) if tenants.waits else 0.0
    return figures


if __name__ == "__main__":
    run_command(main)
