"""`python -m bench.defragtimes`: how long the plan of a DefragPolicy's window takes, and for how long the event loop is held meanwhile.

In: numbers of nodes with eight cards each, the share of the claims that ends. Out: a table of seconds and milliseconds for each goal.

The cluster is that of `bench.defrag`, with a pod for each claim. What runs is the operator's own `DefragPolicies.act`, with the operator's garbage collection and switch
interval: who may move is read in slices, the picture is taken, a thread plans, the status is written to a client that answers at once. Beside it a task sleeps for a
millisecond again and again: by how much it wakes late is for how long the loop was held, by work on it or by the thread that has the interpreter. The same is measured for
as long without a plan, because on a busy machine the kernel holds the loop as well.
"""

import asyncio
import gc
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import orjson
import structlog
import typer
from rich.table import Table

from apportion.allocator.defrag.cards import cards
from apportion.app import SWITCH
from apportion.cluster.kinds import ResourceKind
from apportion.cluster.recorder import Recorder
from apportion.scheduling.defrag.policies import DefragPolicies
from apportion.scheduling.preemption.evictor import Evictor
from bench.churnedcluster import WHOLE, observed
from bench.console import table_console
from bench.defrag import Held, churned
from bench.generator import ScenarioSpec, generate
from bench.observed import Json
from bench.options import parse_seeds
from bench.refusals import run_command
from bench.scenariofile import read_json
from bench.scenariorun import operators_collector, percentile
from testbed.cycle import build_cycle, now

TICK = 0.001
"""Seconds that the task beside sleeps."""
_MS = 1000
GOALS: Mapping[str, Json] = {
    "8 whole cards": {"wholeCards": {"deviceClass": WHOLE, "count": 8}},
    "256 whole cards": {"wholeCards": {"deviceClass": WHOLE, "count": 256}},
    "a whole node": {"roomFor": {"deviceClass": WHOLE, "count": 8}},
}
"""What is to be free, with as many restarts as a policy may allow. Room for a whole node is looked for while others hold the cards that are free: it would be there otherwise."""


@dataclass(slots=True)
class Times:
    """What a window took."""

    nodes: int
    claims: int
    """That are allocated."""
    goal: str
    verdict: str = ""
    moves: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    """Seconds, of all threads."""
    held: list[float] = field(default_factory=list)
    """By how many milliseconds the task beside woke late, ascending."""
    quiet: list[float] = field(default_factory=list)
    """The same without a plan."""


class Answers:
    """A client that answers at once: a status is what was written last."""

    def __init__(self) -> None:
        self.policy: Json = {}

    async def patch(self, _kind: ResourceKind, _name: str, body: Json, **_: Any) -> Json:
        """Merge the status."""
        version = str(int(self.policy["metadata"]["resourceVersion"]) + 1)
        self.policy = self.policy | {
            "metadata": self.policy["metadata"] | {"resourceVersion": version},
            "status": self.policy.get("status", {}) | body["status"],
        }
        return self.policy

    async def create(self, *_: Any, **__: Any) -> Json:
        """Take an Event."""
        return {}


def main(
    nodes: Annotated[
        list[int] | None, typer.Option(help="Of eight cards each; may be repeated.", min=2)
    ] = None,
    seeds: Annotated[str, typer.Option(help="FIRST-LAST.")] = "1-1",
    ended: Annotated[
        float,
        typer.Option(help="Share of the claims that ends in the end; 0: the cluster is full.", min=0, max=1),
    ] = 0.25,
    json: Annotated[Path | None, typer.Option(help="Write all figures to this file.")] = None,
) -> None:
    """Time a window for each goal."""
    console = table_console(width=140)
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    sys.setswitchinterval(SWITCH)
    rows: list[Times] = []
    for number in nodes or [100, 500, 1000]:
        for seed in parse_seeds(seeds):
            content = read_json(generate("mig", ScenarioSpec(str(number), 0.9, seed))[0])
            held = churned(number, seed, ended)[1]
            rows += [asyncio.run(timed(content, held, goal)) for goal in GOALS]
    table = Table(title=f"a window of a DefragPolicy; {ended:.0%} of the claims of a churned cluster ended")
    for name in ("nodes", "claims", "to be free", "verdict", "moves", "s", "CPU s", "loop held, ms: longest", "p99", "without a plan: longest", "p99"):  # fmt: skip
        table.add_column(name, justify="left" if name in {"to be free", "verdict"} else "right")
    for row in rows:
        figures = (row.held[-1], percentile(row.held, 0.99), row.quiet[-1], percentile(row.quiet, 0.99))
        table.add_row(
            f"{row.nodes:,}", f"{row.claims:,}", row.goal, row.verdict, str(row.moves), f"{row.seconds:.1f}", f"{row.cpu:.1f}",
            *(f"{each:.1f}" for each in figures),
        )  # fmt: skip
    console.print(table)
    if json is not None:
        json.write_bytes(orjson.dumps([_plain(row) for row in rows], option=orjson.OPT_INDENT_2))


async def timed(content: Json, held: Held, goal: str) -> Times:
    """Let a window open on a cluster."""
    spec = {"free": GOALS[goal], "schedule": "* * * * *", "maxRestarts": 64}
    snapshot, policy = observed(content, held, spec)
    client: Any = Answers()
    client.policy = {"metadata": policy.metadata.to_json(), "spec": spec}
    recorder = Recorder(client, component="bench", clock=time.monotonic, now=now)
    cycle = build_cycle(client, snapshot, recorder)
    cycle.once()
    if "roomFor" in GOALS[goal]:
        free = (card for card in cards(snapshot.state, ()) if card.free)
        snapshot.state.hold("others", [result for card in free for result in card.holds])
    policies = DefragPolicies(
        client,
        snapshot,
        cycle.decider,
        cycle.places,
        Evictor(client, fence=lambda: None),
        fence=lambda: None,
        now=now,
        clock=time.monotonic,
        wake=lambda: None,
    )
    found = Times(len(snapshot.nodes), len(held), goal)
    with operators_collector():
        async with _lateness(found.held):
            began, cpu = time.perf_counter(), time.process_time()
            await policies.act()
            found.seconds, found.cpu = time.perf_counter() - began, time.process_time() - cpu
        async with _lateness(found.quiet):
            await asyncio.sleep(max(found.seconds, 1.0))
    [present] = snapshot.defrags.values()
    [condition] = [each for each in present.status.conditions if each.type == "Planned"]
    found.verdict = condition.reason
    found.moves = len(present.status.plan.moves) if present.status.plan is not None else 0
    gc.collect()
    return found


@asynccontextmanager
async def _lateness(late: list[float]) -> AsyncIterator[None]:
    """Note by how many milliseconds a task that sleeps wakes late, within a block; in ascending order in the end."""

    async def sleep() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(TICK)
            late.append((time.perf_counter() - began - TICK) * _MS)

    task = asyncio.create_task(sleep())
    await asyncio.sleep(0)
    try:
        yield
        await asyncio.sleep(2 * TICK)
    finally:
        task.cancel()
        late.sort()


def _plain(row: Times) -> Json:
    return {
        "nodes": row.nodes,
        "claims": row.claims,
        "goal": row.goal,
        "verdict": row.verdict,
        "moves": row.moves,
        "seconds": row.seconds,
        "cpuSeconds": row.cpu,
        "heldMs": {"longest": row.held[-1], "p99": percentile(row.held, 0.99)},
        "quietMs": {"longest": row.quiet[-1], "p99": percentile(row.quiet, 0.99)},
    }


if __name__ == "__main__":
    run_command(main)
