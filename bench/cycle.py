"""`python -m bench.cycle`: duration of one pass of the operator (`Cycle.once`) by the number of waiting pods.

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
from rich.console import Console
from rich.table import Table

from apportion.allocator.state import State
from apportion.cluster.kinds import CLAIMS, CLASSES, NAMESPACES, NODES, PODS, QUOTAS, SLICES, ResourceKind
from apportion.cluster.recorder import Recorder
from apportion.cluster.snapshot import Snapshot
from bench.generator import ScenarioSpec, generate
from bench.refusals import refusals
from bench.scenariofile import read_json
from testbed.cycle import build_cycle, now

WARM = 16
"""Pods served before the timed pass, so that selectors are compiled and node classes are known."""
WAITING = (1, 64, 512, 1000)
ROOM = {"cpu": "128", "memory": "1Ti", "pods": "110"}

Json = dict[str, Any]


def main(
    size: Annotated[str, typer.Option(help="small, large (100, 1000 nodes), or a number.")] = "large",
    tenants: Annotated[int, typer.Option(min=1, help="Namespaces over which the pods are spread.")] = 1,
    quotas: Annotated[  # noqa: FBT002 - typer makes a flag of it
        bool, typer.Option("--quotas", help="Every namespace has a quota, half of them in one cohort.")
    ] = False,
) -> None:
    """Time one pass for each number of waiting pods."""
    console = Console()
    table = Table(title=f"a pass of the operator, whole-gpu {size}")
    for name in ("pods waiting", "served", "pass, ms", "a pod, ms"):
        table.add_column(name, justify="right")
    with refusals(console):
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


class UnansweredApi:
    """A client whose writes are never answered."""

    def __getattr__(self, _name: str) -> Any:
        async def never(*_: object, **__: object) -> None:
            await asyncio.Event().wait()

        return never


async def _pass(world: Mapping[str, Any], waiting: int, *, quotas: bool) -> Pass:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    snapshot = Snapshot(State(), wake=lambda: None)
    _observe(snapshot, NODES, [row | {"status": {"allocatable": ROOM}} for row in world["nodes"]])
    _observe(snapshot, CLASSES, [_managed(row) for row in world["classes"]])
    _observe(snapshot, SLICES, world["slices"])
    if quotas:
        names = sorted({claim["metadata"]["namespace"] for claim in world["claims"]})
        _observe(
            snapshot, NAMESPACES, [{"metadata": {"name": name, "labels": {"own": name}}} for name in names]
        )
        counted = [row["metadata"]["name"] for row in world["classes"]]
        _observe(snapshot, QUOTAS, [_quota(name, number, counted) for number, name in enumerate(names)])
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
    _observe(snapshot, CLAIMS, claims)
    _observe(snapshot, PODS, [_pod(claim) for claim in claims])


def _served(snapshot: Snapshot) -> int:
    return sum(snapshot.allocation(claim) is not None for claim in snapshot.claims.values())


def _observe(snapshot: Snapshot, kind: ResourceKind, rows: list[Json]) -> None:
    for row in rows:
        metadata = row["metadata"]
        uid = metadata.get("uid") or f"{kind.plural}/{metadata.get('namespace', '')}/{metadata['name']}"
        own = {"uid": uid, "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
        snapshot.observe(kind, "ADDED", row | {"metadata": metadata | own})


def _managed(row: Json) -> Json:
    return row | {"metadata": row["metadata"] | {"labels": {"apportion.dev/managed": "true"}}}


def _quota(name: str, number: int, classes: list[str]) -> Json:
    resources = [
        {"name": f"r{index}", "deviceClass": each, "guaranteed": 100, "limit": 100_000}
        for index, each in enumerate(classes)
    ]
    spec = {"namespaceSelector": {"matchLabels": {"own": name}}, "resources": resources}
    return {"metadata": {"name": name}, "spec": spec | ({"cohort": "half"} if number % 2 == 0 else {})}


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
    typer.run(main)
