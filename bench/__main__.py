"""`python -m bench`: ours and kube-scheduler's allocator on the same scenario files, in one run, one thread each.

In: size, scenarios, what to run. Out: tables, and with `--json` all figures. Both allocators run without an API server;
`bench.scenariorun` says what is timed.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from apportion.allocator.search.scorer import Strategy
from bench.compare import Row, Verdict, compare, overall, verdict
from bench.console import table_console
from bench.floors import FLOORS
from bench.floors import floors as floors_of
from bench.generator import CHURN, ScenarioSpec, generate
from bench.peer import Peer
from bench.refusals import run_command
from bench.tables import adversarial_table, table

WIDTH = 110
"""Columns of the tables if the output is no terminal."""


def main(
    size: Annotated[
        str, typer.Option(help="tiny, small, large (4, 100, 1000 nodes), or a number.")
    ] = "small",
    scenario: Annotated[list[str] | None, typer.Option(help="Only these; may be repeated.")] = None,
    strategy: Annotated[Strategy, typer.Option(help="Ours.")] = Strategy.LEAST_FRAGMENTATION,
    demand: Annotated[float | None, typer.Option(help="Requested fraction of the capacity.")] = None,
    seed: Annotated[int, typer.Option(help="Of the scenarios.")] = 1,
    rounds: Annotated[int, typer.Option(min=1, help="Runs of each, alternating; medians are shown.")] = 1,
    peer_limit: Annotated[int, typer.Option(help="Claims that the peer handles at most; 0: all.")] = 0,
    peer: Annotated[bool, typer.Option(help="Run the peer too.")] = True,  # noqa: FBT002 - typer makes a flag of it
    scenarios: Annotated[bool, typer.Option(help="Run the scenarios as they are.")] = True,  # noqa: FBT002
    floors: Annotated[bool, typer.Option(help="Run the changed scenarios too.")] = True,  # noqa: FBT002
    floor_limit: Annotated[int, typer.Option(help="Claims of those that each handles; 0: all.")] = 4000,
    adversarial: Annotated[bool, typer.Option(help="Run the adversarial files too.")] = True,  # noqa: FBT002
    ticks: Annotated[bool, typer.Option("--ticks", help="CPU times too.")] = False,  # noqa: FBT002
    json: Annotated[Path | None, typer.Option(help="Write all figures to this file.")] = None,
) -> None:
    """Measure both allocators on the same scenario files and print the ratios."""
    console = table_console(width=WIDTH)
    spec = ScenarioSpec(size, demand, seed)
    rows, lows, verdicts = _measure(
        console,
        Plan(
            spec,
            scenario or CHURN,
            scenarios,
            strategy.value,
            rounds,
            peer_limit,
            floor_limit if floors else -1,
            peer,
            adversarial,
            ticks,
        ),
    )
    title = f"ours ({strategy.value}) and the peer (first-feasible), size {spec.size}, one thread each"
    if rows:
        console.print(table(rows, title))
    mean = overall(rows)
    if mean is not None and len(rows) > 1:
        console.print(f"geometric mean of the ratios of claims/s: [bold]{mean:.2f}[/]")
    if lows:
        most = f"the first {floor_limit} claims of each" if floor_limit else "all claims"
        console.print(table(lows, f"floors: the same scenarios, changed so that caches help little, {most}"))
    if verdicts:
        console.print(adversarial_table(verdicts))
    if json is not None:
        figures: dict[str, Any] = {
            "rows": [row.to_json() for row in rows],
            "floors": [row.to_json() for row in lows],
            "geometricMean": mean,
            "adversarial": [{"scenario": v.scenario, "right": v.right, "ms": v.ms} for v in verdicts],
        }
        json.write_bytes(orjson.dumps(figures, option=orjson.OPT_INDENT_2))


@dataclass(frozen=True, slots=True)
class Plan:
    """The choices of the command line."""

    spec: ScenarioSpec
    scenarios: Sequence[str]
    unchanged: bool
    """Whether the scenarios themselves are run."""
    strategy: str
    rounds: int
    peer_limit: int
    floor_limit: int
    """-1: no floors."""
    peer: bool
    adversarial: bool
    ticks: bool


def _measure(console: Console, plan: Plan) -> tuple[list[Row], list[Row], list[Verdict]]:
    rows: list[Row] = []
    lows: list[Row] = []
    verdicts: list[Verdict] = []
    columns = (
        TextColumn("{task.description:<36}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    each = plan.unchanged + (len(FLOORS) if plan.floor_limit >= 0 else 0)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("building the peer", total=1 + each * len(plan.scenarios))
        peer = Peer.build() if plan.peer else None
        progress.advance(task)

        def show(what: str) -> None:
            progress.update(task, description=what)
            if not console.is_terminal:
                print(what, file=sys.stderr, flush=True)

        for name in plan.scenarios if plan.unchanged else ():
            show(f"{name}: making the scenario")
            for file in generate(name, plan.spec):
                show(f"{name}: running")
                rows.append(
                    compare(file, plan.strategy, peer, plan.rounds, plan.peer_limit, ticks=plan.ticks)
                )
            progress.advance(task)
        for name in plan.scenarios if plan.floor_limit >= 0 else ():
            show(f"{name}: making the floors")
            for floor, file in floors_of(name, plan.spec):
                show(f"{name}: running {floor}")
                lows.append(
                    compare(
                        file,
                        plan.strategy,
                        peer,
                        plan.rounds,
                        plan.floor_limit,
                        both=True,
                        ticks=plan.ticks,
                    )
                )
                progress.advance(task)
        hard = generate("adversarial", ScenarioSpec("tiny", seed=plan.spec.seed)) if plan.adversarial else ()
        task = progress.add_task("adversarial files", total=len(hard))
        for file in hard:
            verdicts.append(verdict(file, plan.strategy))
            progress.advance(task)
    return rows, lows, verdicts


if __name__ == "__main__":
    run_command(main)
