"""`python -m bench.reclaim`: what is guaranteed to many teams comes back from those that have borrowed it, on a real control plane.

In: nodes, teams, GPUs that are guaranteed to each. Out: one line of JSON on stdout; progress on stderr.
"""

import asyncio
from typing import Annotated

import orjson
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.console import table_console
from bench.reclaim.reclaimplan import ReclaimPlan
from bench.reclaim.reclaimrun import measure
from bench.refusals import run_command
from testbed.binaries import provide
from testbed.components import ALL
from testbed.versions import DEFAULT


def main(
    nodes: Annotated[int, typer.Option(min=1, help="Nodes with eight H100 each.")] = 28,
    borrowers: Annotated[int, typer.Option(min=1, help="Teams that have all GPUs at first.")] = 10,
    owners: Annotated[int, typer.Option(min=1, help="Teams that come then.")] = 50,
    guaranteed: Annotated[int, typer.Option(min=1, help="GPUs that are guaranteed to each team.")] = 3,
) -> None:
    """Measure how long guarantees take to come back, and how many pods are evicted for that."""
    console = table_console(stderr=True)
    plan = ReclaimPlan(nodes, borrowers, owners, guaranteed)
    plan.check()
    binaries = asyncio.run(provide(DEFAULT, [*ALL, "kubectl"], console=console))
    columns = TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("starting", total=owners * guaranteed)
        figures = asyncio.run(
            measure(
                plan, binaries, lambda text, count: progress.update(task, description=text, completed=count)
            )
        )
    print(orjson.dumps(figures.to_json()).decode(), flush=True)


if __name__ == "__main__":
    run_command(main)
