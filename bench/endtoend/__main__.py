"""`python -m bench.endtoend`: pods created, allocated and bound on a real control plane, ours and kube-scheduler in one run.

In: number of nodes and pods, what each requests, how fast pods are made.
Out: one line of JSON for each run on stdout; a table and progress on stderr.
"""

import asyncio
import sys
from collections.abc import Sequence
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from bench.console import table_console
from bench.endtoend.endtoendrun import measure
from bench.endtoend.figures import Figures
from bench.endtoend.table import table
from bench.endtoend.workload import Devices, Who, Workload
from bench.refusals import run_command
from testbed.binaries import provide
from testbed.components import ALL
from testbed.versions import DEFAULT

BOTH = "both"


def main(
    nodes: Annotated[int, typer.Option(min=1, help="Nodes with eight H100 each.")] = 100,
    pods: Annotated[int, typer.Option(min=1, help="Pods, each with a template claim.")] = 800,
    devices: Annotated[
        Devices, typer.Option(help="A whole GPU, one MIG 1g.10gb or 10Gi of a GPU a pod.")
    ] = Devices.GPU,
    rate: Annotated[float, typer.Option(min=0, help="Pods made per second; 0: all at once.")] = 0,
    stay: Annotated[
        float, typer.Option(min=0, help="Seconds after which a bound pod is deleted; 0: never.")
    ] = 0,
    who: Annotated[str, typer.Option(help="ours, stock (kube-scheduler allocates) or both.")] = BOTH,
    limit: Annotated[float, typer.Option(min=1, help="Seconds that a run may take at most.")] = 180,
    warm: Annotated[int, typer.Option(min=0, help="Pods that come and go before the run begins.")] = 8,
    rounds: Annotated[int, typer.Option(min=1, help="Runs of each, alternating.")] = 1,
) -> None:
    """Measure the whole: pods per second, p50 and p99, CPU seconds and requests of every process."""
    console = table_console(stderr=True)
    workload = Workload(nodes, pods, devices, rate, stay)
    _check(workload)
    figures = _measure(console, _chosen(who) * rounds, workload, limit, warm)
    console.print(table(figures))


def _check(workload: Workload) -> None:
    if not workload.stay and workload.pods > workload.capacity:
        raise typer.BadParameter(
            f"--pods {workload.pods}: {workload.nodes} nodes take {workload.capacity} at once; with --stay pods leave"
        )


def _chosen(who: str) -> list[Who]:
    if who == BOTH:
        return list(Who)
    if who not in list(Who):
        raise typer.BadParameter(f"--who {who}: expected {', '.join([*Who, BOTH])}")
    return [Who(who)]


def _measure(
    console: Console, chosen: Sequence[Who], workload: Workload, limit: float, warm: int
) -> list[Figures]:
    binaries = asyncio.run(provide(DEFAULT, [*ALL, "kubectl"], console=console))
    columns = (
        TextColumn("{task.fields[who]:<6}{task.description:<10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    found = []
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        for who in chosen:
            task = progress.add_task("starting", total=workload.pods, who=str(who))
            if not console.is_terminal:
                print(f"{who}: {workload.nodes} nodes, {workload.pods} pods", file=sys.stderr, flush=True)

            def show(text: str, bound: int, task: TaskID = task) -> None:
                progress.update(task, description=text, completed=bound)

            figures = asyncio.run(measure(who, workload, binaries, limit=limit, warm=warm, show=show))
            print(orjson.dumps(figures.to_json()).decode(), flush=True)
            found.append(figures)
    return found


if __name__ == "__main__":
    run_command(main)
