"""`python -m testbed soak`: the whole product under random load for minutes or hours, while everything around it fails."""

import asyncio
import secrets
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from testbed.binaries import provide
from testbed.cli import options
from testbed.soak.figures import figures
from testbed.soak.result import SoakResult
from testbed.soak.soakrun import SoakRun

_WIDTH: Final = 120
"""Columns of the table, also where there is no terminal."""


def soak(
    hours: Annotated[float, typer.Option(help="For how long there is load.", min=0.01)] = 2.0,
    minutes: Annotated[
        float | None, typer.Option(help="The same in minutes; goes before hours.", min=0.5)
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the random choices; random if not given.")] = None,
    kubernetes: options.Kubernetes = options.DEFAULT_KUBERNETES,
    logs: Annotated[
        Path | None,
        typer.Option(help="Where all logs are kept when something is wrong; a new folder if not given."),
    ] = None,
    administered: Annotated[  # noqa: FBT002
        bool,
        typer.Option(
            "--administered",
            help="Policies, quotas, layouts, namespaces, nodes change meanwhile, cards fall sick.",
        ),
    ] = False,
) -> None:
    """Load and disturb two operators and four agents, and check invariants each second; exit 1 on any violation."""
    kept = logs if logs is not None else Path(tempfile.gettempdir(), f"soak-{secrets.token_hex(4)}")
    chosen = seed if seed is not None else secrets.randbelow(10**6)
    seconds = hours * 3600 if minutes is None else minutes * 60
    result = asyncio.run(
        _run(seconds, chosen, kubernetes, kept, Console(stderr=True), administered=administered)
    )
    Console(width=_WIDTH).print(figures(result))
    for text in result.problems:
        print(text, file=sys.stderr)
    print(result.line())
    if result.problems:
        print(f"the logs are in {kept}", file=sys.stderr)
        sys.exit(1)


async def _run(
    seconds: float, seed: int, version: str, logs: Path, console: Console, *, administered: bool
) -> SoakResult:
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
        minute, printed = 0, set[str]()

        def show(result: SoakResult) -> None:
            nonlocal minute
            for text in result.violations:
                if text not in printed:
                    console.print(f"violation: {text}", highlight=False, markup=False)
            printed.update(result.violations)
            disturbed, faults = sum(result.disturbances.values()), sum(result.faults.values())
            said = f"pods {result.served}, disturbed {disturbed}, faults {faults}, violations {len(result.violations)}"
            elapsed = progress.tasks[bar].elapsed or 0.0
            progress.update(bar, completed=elapsed, description=said)
            if not console.is_terminal and elapsed // 60 > minute:
                minute = int(elapsed // 60)
                console.print(f"minute {minute}: {said}", highlight=False)

        run = SoakRun(
            binaries,
            seconds=seconds,
            seed=seed,
            version=version,
            show=show,
            logs=logs,
            administered=administered,
        )
        return await run.run()
