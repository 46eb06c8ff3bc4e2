"""`python -m bench.cycle`: duration of one pass of the operator (`Cycle.once`) by the number of waiting pods.

With `--reservations` what a pass takes on a full cluster instead (`reservedpasses.py`).

In: the scenario `whole-gpu`, an ungated pod for every claim. Out: a table of milliseconds
per pass and per pod. Not timed: decoding watch events and taking them into the snapshot,
and all writes: a pass starts them as tasks, and no task runs before the pass has ended.
"""

import asyncio
import gc
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import structlog
import typer
from rich.table import Table

from apportion.allocator.state import State
from apportion.cluster.kinds import CLAIMS, CLASSES, NAMESPACES, NODES, PODS, QUOTAS, SLICES
from apportion.cluster.recorder import Recorder
from apportion.cluster.snapshot import Snapshot
from bench.console import table_console
from bench.generator import ScenarioSpec, generate
from bench.observed import ROOM, UnansweredApi, managed, observe, own_namespace, quota
from bench.refusals import run_command
from bench.reservedpasses import compare
from bench.scenariofile import read_json
from testbed.cycle import build_cycle, now

WARM = 16
"""Pods served before the timed pass, so that selectors are compiled and node classes are known."""
WAITING = (1, 64, 512, 1000)

Json = dict[str, Any]


def main(
    size: Annotated[str, typer.Option(help="small, large (100, 1000 nodes), or a number.")] = "large",
    tenants: Annotated[int, typer.Option(min=1, help="Namespaces over which the pods are spread.")] = 1,
    quotas: Annotated[  # noqa: FBT002 - typer makes a flag of it
        bool, typer.Option("--quotas", help="Every namespace has a quota, half of them in one cohort.")
    ] = False,
    reservations: Annotated[  # noqa: FBT002 - as above
        bool,
        typer.Option(
            "--reservations",
            help="Time the pass after a pod's end on a full cluster of this size, with devices reserved (and with --quotas), and without.",
        ),
    ] = False,
) -> None:
    """Time one pass for each number of waiting pods; or, with `--reservations`, what they cost a pass."""
    console = table_console()
    if reservations:
        console.print(compare(size, quotas=quotas))
        return
    table = Table(title=f"a pass of the operator, whole-gpu {size}")
    for name in ("pods waiting", "served", "pass, ms", "a pod, ms"):
        table.add_column(name, justify="right")
    world = read_json(generate("whole-gpu", ScenarioSpec(size, None, 1))[0])
    if tenants > 1:
        for number, claim in enumerate(world["claims"]):
            claim["metadata"]["namespace"] = f"tenant-{number % tenants}"
    most = len(world["claims"]) - WARM
    for waiting in (*(number for number in WAITING if number < most), most):
        found = asyncio.run(_pass(world, waiting, quotas=quotas))
        table.add_row(str(waiting), str(found.served), f"{found.ms:,.0f}", f"{found.ms / waiting:.2f}")
    console.print(table)


@dataclass(frozen=True, slots=True)
class Pass:
    """One timed pass."""

    served: int
    ms: float


async def _pass(world: Mapping[str, Any], waiting: int, *, quotas: bool) -> Pass:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    snapshot = Snapshot(State(), wake=lambda: None)
    observe(snapshot, NODES, [row | {"status": {"allocatable": ROOM}} for row in world["nodes"]])
    observe(snapshot, CLASSES, [managed(row) for row in world["classes"]])
    observe(snapshot, SLICES, world["slices"])
    if quotas:
        names = sorted({claim["metadata"]["namespace"] for claim in world["claims"]})
        observe(snapshot, NAMESPACES, [own_namespace(name) for name in names])
        counted = [row["metadata"]["name"] for row in world["classes"]]
        observe(snapshot, QUOTAS, [quota(name, number, counted) for number, name in enumerate(names)])
    client: Any = UnansweredApi()
    recorder = Recorder(client, component="bench", clock=time.monotonic, now=now)
    cycle = build_cycle(client, snapshot, recorder)
    claims = world["claims"]
    _arrive(snapshot, claims[:WARM])
    cycle.once()
    _arrive(snapshot, claims[WARM : WARM + waiting])
    before = _served(snapshot)
    gc.collect()
    began = time.perf_counter()
    cycle.once()
    took = time.perf_counter() - began
    return Pass(_served(snapshot) - before, took * 1000)


def _arrive(snapshot: Snapshot, claims: list[Json]) -> None:
    observe(snapshot, CLAIMS, claims)
    observe(snapshot, PODS, [_pod(claim) for claim in claims])


def _served(snapshot: Snapshot) -> int:
    return sum(snapshot.allocation(claim) is not None for claim in snapshot.claims.values())


def _pod(claim: Json) -> Json:
    name, namespace = claim["metadata"]["name"], claim["metadata"]["namespace"]
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "4", "memory": "16Gi"}}}],
        },
    }


if __name__ == "__main__":
    run_command(main)
