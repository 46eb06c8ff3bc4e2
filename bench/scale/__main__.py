"""`python -m bench.scale`: the operator on a large cluster behind a real API server.

In: how many nodes, bound pods and allocated claims. Out: one line of JSON on stdout;
a table and progress on stderr. etcd and kube-apiserver are real; objects are written
straight into etcd; there is no scheduler, no controller-manager and no agent.
"""

import asyncio
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console

from bench.console import table_console
from bench.refusals import run_command
from bench.scale.figures import line, table
from bench.scale.scalerun import Plan, ScaleRun
from bench.scale.world import Published, World
from bench.usage import load
from testbed.binaries import Binaries, provide
from testbed.components import APISERVER, ETCD
from testbed.versions import DEFAULT


def main(
    nodes: Annotated[int, typer.Option(min=1, help="Nodes with eight H100 each.")] = 5000,
    pods: Annotated[int, typer.Option(min=0, help="Bound pods; the first ones have a claim each.")] = 50_000,
    claims: Annotated[int, typer.Option(min=0, help="Allocated claims.")] = 20_000,
    waiting: Annotated[int, typer.Option(min=1, help="New claims that come at once.")] = 1000,
    published: Annotated[
        Published, typer.Option(help="gpu: whole GPUs only; mig: with all MIG placements.")
    ] = Published.GPU,
    partitions: Annotated[
        int, typer.Option(min=0, help="How many of the claims have a MIG partition; with --published mig.")
    ] = 0,
    window: Annotated[float, typer.Option(min=1, help="Seconds in which nothing comes.")] = 20,
    lease: Annotated[float, typer.Option(min=9, help="Seconds of the operator's lease.")] = 15,
    limit: Annotated[float, typer.Option(min=1, help="Seconds that any phase may take at most.")] = 600,
) -> None:
    """Measure start, memory, idle passes, new claims, events, refusals and failover."""
    console = table_console(stderr=True)
    world = World(nodes, pods, claims, published, partitions)
    world.check()
    binaries = asyncio.run(provide(DEFAULT, [ETCD, APISERVER, "kubectl"], console=console))
    found = asyncio.run(_measure(console, Plan(world, waiting, window, lease, limit), binaries))
    sys.stdout.write(orjson.dumps(found).decode() + "\n")


async def _measure(console: Console, plan: Plan, binaries: Binaries) -> Mapping[str, Any]:
    before = load()
    with console.status("starting") as status:

        def show(text: str) -> None:
            status.update(text)
            if not console.is_terminal:
                print(text, file=sys.stderr, flush=True)

        async with ScaleRun(plan, binaries, show) as run:
            phases = await run.phases()
            version = run.control_plane.version
    console.print(table(plan.world, phases))
    return line(plan.world, version, (before, load()), phases)


if __name__ == "__main__":
    run_command(main)
