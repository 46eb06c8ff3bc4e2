"""`python -m bench.gangs`: arguments in, one JSON line out; status 1 if a group that fits alone was not served, or one in part.

etcd, kube-apiserver, controller-manager and the operator are real; nobody binds the pods.
"""

import asyncio
import sys
from dataclasses import asdict
from typing import Annotated

import orjson
import typer
from rich.console import Console

from bench.gangs import arrivals, bystanders
from bench.refusals import run_command
from bench.scenariorun import percentile
from testbed.binaries import Binaries, provide
from testbed.versions import DEFAULT


async def _binaries() -> Binaries:
    return await provide(DEFAULT, console=Console(stderr=True))


def main(
    groups: Annotated[int, typer.Option(min=1, help="Groups that arrive.")] = 1000,
    seed: Annotated[int, typer.Option(help="Of sizes and times.")] = 1,
    within: Annotated[float, typer.Option(min=1, help="Seconds at most.")] = 900.0,
    pods: Annotated[
        int, typer.Option(min=0, help="One group of so many pods instead, beside single pods of others.")
    ] = 0,
    nodes: Annotated[
        int, typer.Option(min=1, help="Nodes that this group needs, with 8 devices each.")
    ] = 128,
    single: Annotated[
        int, typer.Option(min=1, help="Single pods before this group, and beside it at most.")
    ] = 100,
) -> None:
    """Let groups arrive at random, most of which need more than half of the devices; or a large one beside single pods."""
    if pods:
        large = asyncio.run(_large(pods, nodes, single))
        _write(asdict(large) | {"longer": large.longer})
        return
    report = asyncio.run(_arrivals(groups, seed, within))
    waited = sorted(report.waited)
    percentiles = {
        "p50": percentile(waited, 0.5),
        "p99": percentile(waited, 0.99),
        "max": max(waited, default=0),
    }
    _write(asdict(report) | {"waited": percentiles})
    if not report.ended_well:
        raise typer.Exit(1)


async def _arrivals(groups: int, seed: int, within: float) -> arrivals.Report:
    return await arrivals.measure(groups, seed, within, await _binaries())


async def _large(pods: int, nodes: int, single: int) -> bystanders.Report:
    return await bystanders.measure(pods, nodes, single, await _binaries())


def _write(line: dict[str, object]) -> None:
    sys.stdout.write(orjson.dumps(line).decode() + "\n")


if __name__ == "__main__":
    run_command(main)
