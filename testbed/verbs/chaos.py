"""`python -m testbed chaos`: the real agent, killed again and again, and a judge that shares no code with it."""

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
from testbed.chaos.storm import Outcome, Plan, Storm
from testbed.components import APISERVER, ETCD
from testbed.controlplane import ControlPlane
from testbed.installation import install
from testbed.verbs import options


class Backend(StrEnum):
    """Which fake hardware."""

    NVML = "nvml"
    SIMULATED = "simulated"


def chaos(
    kills: Annotated[
        int, typer.Option(help="Kills at random moments; those at every boundary come first.")
    ] = 1000,
    seed: Annotated[
        int | None, typer.Option(help="Of the random choices; another one each time if not given.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write one row a kill: .csv, else JSON lines.")] = None,
    backend: Annotated[Backend, typer.Option(help="Fake hardware under the agents.")] = Backend.NVML,
    nodes: Annotated[int, typer.Option(help="Nodes that are killed side by side.", min=1, max=16)] = 2,
    lose: Annotated[
        str, typer.Option(help="A journal write that never happens (such as Intent): the run must fail.")
    ] = "",
    kubernetes: options.Kubernetes = options.DEFAULT_KUBERNETES,
) -> None:
    """Kill the node agent at every boundary and at random moments; exit 1 on any broken promise."""
    console = Console(stderr=True)
    plan = Plan(
        kills,
        seed if seed is not None else secrets.randbelow(10**6),
        backend.value,
        nodes,
        lose=lose,
        report=report,
    )
    print(f"seed={plan.seed}")
    outcome = asyncio.run(_run(plan, kubernetes, console))
    print(
        f"boundaries={len(outcome.struck)} missed={len(outcome.missed)} reboots={outcome.reboots} cuts={outcome.cuts}"
    )
    for text in _wrong(outcome):
        print(text)
    print(outcome.line())
    if not outcome.good:
        sys.exit(1)


async def _run(plan: Plan, version: str, console: Console) -> Outcome:
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
            bar = progress.add_task("", total=plan.kills)

            def told(outcome: Outcome) -> None:
                said = f"boundaries {len(outcome.struck)}, reboots {outcome.reboots}, cuts {outcome.cuts}"
                progress.update(bar, completed=outcome.kills, description=said)

            return await Storm(cluster, plan, told=told).run()


def _wrong(outcome: Outcome) -> Iterable[str]:
    yield from (f"{each.kind}: {each.text}" for each in outcome.verdicts)
    yield from (f"no round came to: {text}" for text in outcome.missed)
    if outcome.words:
        yield f"the end of that agent's log:\n{outcome.words}"
