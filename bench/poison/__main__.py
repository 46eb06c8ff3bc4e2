"""`python -m bench.poison`: one tenant's pods while another one asks for everything that does damage.

In: the steady pods, the size of the storm, which poisons.
Out: one line of JSON on stdout; a table and progress on stderr.
"""

import asyncio
import sys
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.console import table_console
from bench.endtoend.workload import Devices, Workload
from bench.h100node import CARDS
from bench.poison.figures import Figures
from bench.poison.poisonrun import measure
from bench.poison.poisons import Poison, Storm
from bench.poison.stormplan import BEFORE, StormPlan
from bench.poison.table import table
from bench.refusals import run_command
from testbed.binaries import provide
from testbed.components import ALL
from testbed.versions import DEFAULT


def main(
    nodes: Annotated[int, typer.Option(min=1, help="Nodes with eight H100 each.")] = 20,
    seconds: Annotated[
        int, typer.Option(min=1, help=f"Seconds of the storm, {BEFORE} s after the first pod.")
    ] = 600,
    rate: Annotated[float, typer.Option(min=0.1, help="Steady pods a second, a whole GPU each.")] = 10,
    stay: Annotated[float, typer.Option(min=0, help="Seconds after which a bound one is deleted.")] = 5,
    claims: Annotated[int, typer.Option(min=1, help="Claims of the attacker's Job.")] = 5000,
    gang: Annotated[int, typer.Option(min=1, help="Pods of the attacker's group.")] = 1024,
    poison_rate: Annotated[
        float, typer.Option(min=0.1, help="Objects a second that the attacker makes.")
    ] = 50,
    only: Annotated[list[Poison] | None, typer.Option(help="A poison; repeatable. Default: all.")] = None,
) -> None:
    """Measure what a tenant with steady pods notices of a storm in another tenant's namespace."""
    console = table_console(stderr=True)
    pods = max(round(rate * (BEFORE + seconds)), 1)
    workload = Workload(nodes, pods, Devices.GPU, rate, stay)
    poisons = tuple(poison for poison in Poison if not only or poison in only)
    plan = StormPlan(workload, Storm(poisons, nodes * CARDS, claims, gang), seconds, poison_rate)
    plan.check()
    figures = _measure(console, plan)
    print(orjson.dumps(figures.to_json()).decode(), flush=True)
    console.print(table(figures))


def _measure(console: Console, plan: StormPlan) -> Figures:
    binaries = asyncio.run(provide(DEFAULT, [*ALL, "kubectl"], console=console))
    columns = (
        TextColumn("{task.description:<10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("starting", total=plan.workload.pods)
        if not console.is_terminal:
            print(f"{plan.workload.nodes} nodes, {plan.workload.pods} pods", file=sys.stderr, flush=True)

        def show(text: str, bound: int) -> None:
            progress.update(task, description=text, completed=bound)

        return asyncio.run(measure(plan, binaries, show))


if __name__ == "__main__":
    run_command(main)
