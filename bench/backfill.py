"""`python -m bench.backfill`: waits of large demands on a full cluster, with devices reserved for the first of the queue and without.

In: the lists of the openb data set: every tenth node, the pods with whole GPUs, their cpu, memory and runtimes. Out: for each mode
utilization, waits by size, and how many of those for whom devices were reserved started later than first expected.

It is a simulation of time: pods arrive as drawn by the seed, run as long as in the list (four hours at most), and end. What decides is
the operator's own cycle, one pass every `--step` seconds, over a snapshot that is shown what API server, kube-scheduler and
kubelet would make of its decisions, at once. A pod declares what it runs, times a factor from 1 to 3 that is drawn.
"""

import asyncio
import random
import statistics
from collections.abc import Mapping, Sequence
from typing import Annotated

import structlog
import typer
from rich.console import Console
from rich.table import Table

from bench.folders import shared
from bench.openb.rows import NODES, PODS, read_rows
from bench.refusals import run_command
from bench.simulatedqueue import LARGE, LONGEST, Arrival, Mode, Outcome, Simulation

_COLUMNS = ("num_gpu", "gpu_milli", "cpu_milli", "memory_mib", "scheduled_time", "deletion_time")


def main(
    seed: int = 1,
    load: Annotated[float, typer.Option(help="GPU seconds that arrive, by those there are.")] = 0.95,
    hours: float = 12.0,
    every: Annotated[int, typer.Option(help="Take every n-th node.")] = 10,
    step: Annotated[float, typer.Option(help="Seconds between passes.")] = 60.0,
    reserved: Annotated[int, typer.Option(help="queue.mostReserved.")] = 8,
) -> None:
    """Compare the modes on the same arrivals."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    data = shared("data/openb")
    nodes = read_rows(data, NODES, "sn", "gpu", "cpu_milli", "memory_mib")[::every]
    total = sum(int(row["gpu"]) for row in nodes)
    until, warm = hours * 3600, hours * 3600 / 4
    arrivals = draw(read_rows(data, PODS, *_COLUMNS), nodes, seed, load * total, until)
    table = Table(title=f"{len(nodes)} nodes, {total} GPUs, {len(arrivals)} pods, seed {seed}, load {load}")
    for name in (
        "mode", "used, %", "8 GPUs: waits", "median, s", "p90, s", "all: median, s", "p90, s", "reserved", "late",
        "latest, s", "unserved",
    ):  # fmt: skip
        table.add_column(name, justify="right")
    for mode in (
        Mode("none reserved", 0),
        Mode("reserved", reserved),
        Mode("reserved, nothing declared", reserved, declares=False),
    ):
        found = asyncio.run(_run(nodes, mode, arrivals, step, warm, until))
        large, every_wait = found.waits.get(LARGE, [0.0]), [w for each in found.waits.values() for w in each]
        table.add_row(
            mode.name,
            f"{100 * found.used / (total * (until - warm)):.2f}",
            str(len(large)),
            *(f"{_quantile(rows, at):,.0f}" for rows in (large, every_wait) for at in (0.5, 0.9)),
            str(found.reserved),
            str(len(found.late)),
            f"{max(found.late, default=0.0):,.0f}",
            str(found.unserved),
        )
    Console(width=160).print(table)


async def _run(
    nodes: Sequence[Mapping[str, str]],
    mode: Mode,
    arrivals: Sequence[Arrival],
    step: float,
    warm: float,
    until: float,
) -> Outcome:
    return Simulation(nodes, mode).run(arrivals, step=step, warm=warm, until=until)


def draw(
    pods: Sequence[Mapping[str, str]],
    nodes: Sequence[Mapping[str, str]],
    seed: int,
    devices: float,
    until: float,
) -> list[Arrival]:
    """Return pods of the list with whole GPUs that fit an empty node, drawn with replacement, by a Poisson process.

    `devices`: GPU seconds that arrive in a second.
    """
    rng = random.Random(f"backfill/{seed}")
    rows = [
        row
        for row in pods
        if row["gpu_milli"] == "1000" and row["scheduled_time"] and row["deletion_time"] and _fits(row, nodes)
    ]
    runtimes = [min(float(row["deletion_time"]) - float(row["scheduled_time"]), LONGEST) for row in rows]
    mean = statistics.fmean(int(row["num_gpu"]) * each for row, each in zip(rows, runtimes, strict=True))
    found: list[Arrival] = []
    at = 0.0
    while (at := at + rng.expovariate(devices / mean)) < until:
        index = rng.randrange(len(rows))
        row, runs = rows[index], max(runtimes[index], 30.0)
        declares = 60.0 * (1 + runs * rng.uniform(1.0, 3.0) // 60)
        cpu, memory = int(row["cpu_milli"]), int(row["memory_mib"])
        found.append(Arrival(at, int(row["num_gpu"]), cpu, memory, runs, declares))
    return found


def _fits(pod: Mapping[str, str], nodes: Sequence[Mapping[str, str]]) -> bool:
    wanted = ("num_gpu", "gpu"), ("cpu_milli", "cpu_milli"), ("memory_mib", "memory_mib")
    return any(all(int(pod[need]) <= int(node[has]) for need, has in wanted) for node in nodes)


def _quantile(rows: Sequence[float], at: float) -> float:
    return sorted(rows)[min(int(len(rows) * at), len(rows) - 1)] if rows else 0.0


if __name__ == "__main__":
    run_command(main)
