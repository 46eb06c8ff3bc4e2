"""`python -m testbed soak`: the whole product under random load for hours, while everything around it fails."""

import asyncio
import secrets
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from testbed.binaries import provide
from testbed.cli import options
from testbed.soak.result import SoakResult
from testbed.soak.soakrun import SoakRun


def soak(
    hours: Annotated[float, typer.Option(help="For how long there is load.", min=0.01)] = 2.0,
    seed: Annotated[int | None, typer.Option(help="Seed of the random choices; random if not given.")] = None,
    kubernetes: options.Kubernetes = options.DEFAULT_KUBERNETES,
) -> None:
    """Load and disturb two operators and four agents, and check invariants each second; exit 1 on any violation."""
    chosen = seed if seed is not None else secrets.randbelow(10**6)
    result = asyncio.run(_run(hours * 3600, chosen, kubernetes, Console(stderr=True)))
    for text in result.problems:
        print(text, file=sys.stderr)
    print(result.line())
    if result.problems:
        sys.exit(1)


async def _run(seconds: float, seed: int, version: str, console: Console) -> SoakResult:
    binaries = await provide(version, console=console)
    with Progress(
        TextColumn("soak"),
        BarColumn(bar_width=30),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
        console=console,
        disable=not console.is_terminal,
    ) as progress:
        bar = progress.add_task("starting", total=seconds)

        def show(result: SoakResult) -> None:
            faults = sum(result.faults.values()) + sum(result.disturbances.values())
            said = f"pods served {result.served}, faults {faults}, violations {len(result.violations)}"
            progress.update(bar, completed=progress.tasks[bar].elapsed, description=said)

        return await SoakRun(binaries, seconds=seconds, seed=seed, version=version, show=show).run()
