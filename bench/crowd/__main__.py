"""`python -m bench.crowd`: one tenant's steady pods beside thousands of others' that wait in a full cluster.

In: nodes, tenants, pods, whether there are quotas. Out: one line of JSON on stdout; a table and progress on stderr.
"""

import asyncio
import sys
from typing import Annotated

import orjson
import typer
from rich.console import Console

from bench.console import table_console
from bench.crowd.crowdplan import CrowdPlan
from bench.crowd.crowdrun import BEFORE, measure
from bench.crowd.figures import Figures
from bench.crowd.table import table
from bench.endtoend.workload import Devices, Workload
from bench.refusals import run_command
from testbed.binaries import provide
from testbed.components import ALL
from testbed.versions import DEFAULT

_LONGEST = 3600
"""Seconds for which there are steady pods at most."""


def main(
    nodes: Annotated[int, typer.Option(min=2, help="Nodes with eight H100 each.")] = 100,
    tenants: Annotated[int, typer.Option(min=1, help="Namespaces of the crowd.")] = 200,
    waiting: Annotated[int, typer.Option(min=1, help="Pods of the crowd.")] = 3000,
    crowd_stay: Annotated[
        float, typer.Option(min=1, help="Seconds for which one of them runs, on average.")
    ] = 60,
    quotas: Annotated[bool, typer.Option(help="Whether each tenant has an AcceleratorQuota.")] = True,  # noqa: FBT002 - typer makes a flag of it
    seconds: Annotated[
        int, typer.Option(min=1, help="Seconds that are measured once all of the crowd is there.")
    ] = 60,
    rate: Annotated[float, typer.Option(min=0.1, help="Steady pods a second, a whole GPU each.")] = 2,
    stay: Annotated[float, typer.Option(min=0, help="Seconds after which a bound one is deleted.")] = 5,
    seed: Annotated[int, typer.Option(help="Of who asks for what.")] = 1,
) -> None:
    """Measure what a tenant with steady pods notices of a crowd that waits."""
    console = table_console(stderr=True)
    workload = Workload(nodes, round(rate * _LONGEST), Devices.GPU, rate, stay)
    plan = CrowdPlan(workload, tenants, waiting, crowd_stay, quotas, seconds, seed)
    plan.check()
    figures = _measure(console, plan)
    print(orjson.dumps(figures.to_json()).decode(), flush=True)
    console.print(table(figures))


def _measure(console: Console, plan: CrowdPlan) -> Figures:
    binaries = asyncio.run(provide(DEFAULT, [*ALL, "kubectl"], console=console))
    if not console.is_terminal:
        print(f"{plan.workload.nodes} nodes, {plan.waiting} pods", file=sys.stderr, flush=True)
    with console.status("starting") as status:
        texts = {"alone": f"steady pods alone, {BEFORE} s", "beside": f"beside the crowd, {plan.seconds} s"}
        return asyncio.run(measure(plan, binaries, lambda text: status.update(texts.get(text, text))))


if __name__ == "__main__":
    run_command(main)
