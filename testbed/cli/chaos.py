"""`python -m testbed chaos`: agents are killed again and again, and invariants are checked without their code."""

import asyncio
import secrets
import sys
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from testbed.binaries import provide
from testbed.chaos.chaosrun import ChaosRun, RunOptions, RunResult
from testbed.cli import options
from testbed.components import APISERVER, ETCD
from testbed.controlplane import ControlPlane
from testbed.installation import install


class Backend(StrEnum):
    """Which fake hardware."""

    NVML = "nvml"
    SIMULATED = "simulated"


def chaos(
    kills: Annotated[
        int, typer.Option(help="Kills at random moments; kills at every boundary come first.")
    ] = 1000,
    seed: Annotated[int | None, typer.Option(help="Seed of the random choices; random if not given.")] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write one row per kill: .csv, else JSON lines.")
    ] = None,
    backend: Annotated[Backend, typer.Option(help="Fake hardware under the agents.")] = Backend.NVML,
    nodes: Annotated[
        int, typer.Option(help="Nodes whose agents are killed at the same time.", min=1, max=16)
    ] = 2,
    lose: Annotated[
        str, typer.Option(help="A journal write that is left out (such as Intent): the run must fail.")
    ] = "",
    kubernetes: options.Kubernetes = options.DEFAULT_KUBERNETES,
) -> None:
    """Kill the node agent at every boundary and at random moments; exit 1 on any violation."""
    console = Console(stderr=True)
    run_options = RunOptions(
        kills,
        seed if seed is not None else secrets.randbelow(10**6),
        backend.value,
        nodes,
        lose=lose,
        report=report,
    )
    print(f"seed={run_options.seed}")
    result = asyncio.run(_run(run_options, kubernetes, console))
    print(
        f"boundaries={len(result.hit)} missed={len(result.missed)} reboots={result.reboots} cuts={result.cuts}"
    )
    for text in _violations(result):
        print(text)
    print(result.line())
    if not result.good:
        sys.exit(1)


async def _run(run_options: RunOptions, version: str, console: Console) -> RunResult:
    binaries = await provide(version, [ETCD, APISERVER, "kubectl"], console=console)
    async with ControlPlane(version=version, binaries=binaries, components=(ETCD, APISERVER)) as cluster:
        await install(cluster)
        with Progress(
            TextColumn("killing agents"),
            BarColumn(bar_width=40),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
            console=console,
            disable=not console.is_terminal,
        ) as progress:
            bar = progress.add_task("", total=run_options.kills)

            def show(result: RunResult) -> None:
                counts = f"boundaries {len(result.hit)}, reboots {result.reboots}, cuts {result.cuts}"
                progress.update(bar, completed=result.kills, description=counts)

            return await ChaosRun(cluster, run_options, on_kill=show).run()


def _violations(result: RunResult) -> Iterable[str]:
    yield from (f"{each.kind}: {each.text}" for each in result.violations)
    yield from (f"no round reached: {text}" for text in result.missed)
    if result.log_tail:
        yield f"the end of that agent's log:\n{result.log_tail}"
