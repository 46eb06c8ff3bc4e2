"""`python -m bench.schedperf`: Kubernetes' own scheduler_perf cases for DRA, in turns without and with the operator.

In: names of upstream's workloads, whose files are not touched. Out: one line of JSON for each
run on stdout; a table with ratios, and what cannot be served with its reason, on stderr.
"""

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from apportion.errors import BrokenInput
from bench.console import table_console
from bench.refusals import run_command
from bench.schedperf.cases import CHOSEN, Workload, choose, workloads
from bench.schedperf.program import Mode, Program
from bench.schedperf.results import result
from bench.schedperf.tables import Run, listing, table
from testbed.binaries import provide
from testbed.components import ETCD
from testbed.versions import DEFAULT


def main(
    case: Annotated[
        list[str] | None, typer.Option(help="CASE/WORKLOAD, as upstream names them; * matches. Repeatable.")
    ] = None,
    mode: Annotated[
        Mode, typer.Option(help="The other runs: gate or taint (ours), idle (ours beside stock).")
    ] = Mode.GATE,
    rounds: Annotated[int, typer.Option(min=1, help="Runs of each mode, in turns.")] = 1,
    limit: Annotated[float, typer.Option(min=1, help="Seconds that the pods of a run may take.")] = 600,
    out: Annotated[Path | None, typer.Option(help="Keep logs and upstream's files here.")] = None,
    only_list: Annotated[  # noqa: FBT002
        bool, typer.Option("--list", help="Show all workloads, and run none.")
    ] = False,
) -> None:
    """Run upstream's workloads with kube-scheduler's allocator and with ours, and print the ratios."""
    console = table_console(stderr=True)
    with console.status("building scheduler_perf (minutes the first time)"):
        program = Program.build()
    every = workloads(program.kubernetes)
    if only_list:
        Console(width=console.width).print(listing(every))
        return
    chosen = choose(every, case or CHOSEN)
    runs = _run(console, program, chosen, [Mode.KUBE_SCHEDULER, mode] * rounds, limit, out)
    console.print(table(runs))
    left_out = [each for each in chosen if each.unserved or each.broken]
    if left_out:
        console.print(listing(left_out))


def _run(
    console: Console,
    program: Program,
    chosen: Sequence[Workload],
    modes: Sequence[Mode],
    limit: float,
    out: Path | None,
) -> list[Run]:
    binaries = asyncio.run(provide(DEFAULT, [ETCD], console=console))
    folder = out or Path(tempfile.mkdtemp(prefix="schedperf-"))
    columns = (TextColumn("{task.description:<60}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    found: list[Run] = []
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        todo = [(each, mode) for each in chosen if not each.broken for mode in modes]
        todo = [(each, mode) for each, mode in todo if mode is Mode.KUBE_SCHEDULER or not each.unserved]
        task = progress.add_task("", total=len(todo))
        for number, (workload, mode) in enumerate(todo):
            title = f"{workload.title} {mode}"
            progress.update(task, description=title)
            if not console.is_terminal:
                print(title, file=sys.stderr, flush=True)
            at = folder / f"{number:03d}-{mode}-{workload.case}-{workload.name}"
            failed = program.run(workload, mode, at, etcd=binaries[ETCD].parent, patience=limit)
            run = _read(workload, mode, at, failed)
            print(orjson.dumps(run.to_json()).decode(), flush=True)
            found.append(run)
            progress.advance(task)
    console.print(f"logs: {folder}", style="dim", highlight=False)
    return found


def _read(workload: Workload, mode: Mode, at: Path, failed: str) -> Run:
    if failed:
        return Run(workload, mode, None, failed)
    try:
        return Run(workload, mode, result(at))
    except BrokenInput as error:
        return Run(workload, mode, None, str(error))


if __name__ == "__main__":
    run_command(main)
