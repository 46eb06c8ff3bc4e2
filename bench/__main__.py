"""`python -m bench`: ours and kube-scheduler's allocator on the same scenarios, in one run, one thread each."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from apportion.allocator.score.strategy import Strategy
from apportion.errors import ApportionError
from bench.compare import Row, Verdict, compare, overall, verdict
from bench.files import CHURN, Wish, generate
from bench.peer import Peer

BAD_INPUT = 2
SLOW_MS = 100
"""An adversarial file that takes longer is marked."""


def main(
    size: Annotated[
        str, typer.Option(help="tiny, small, large (4, 100, 1000 nodes), or a number.")
    ] = "small",
    scenario: Annotated[list[str] | None, typer.Option(help="Only these; may be repeated.")] = None,
    strategy: Annotated[Strategy, typer.Option(help="Ours.")] = Strategy.LEAST_FRAGMENTATION,
    demand: Annotated[float | None, typer.Option(help="Part of the capacity asked for.")] = None,
    seed: Annotated[int, typer.Option(help="Of the scenarios.")] = 1,
    rounds: Annotated[int, typer.Option(min=1, help="Runs of each, in turns; medians are shown.")] = 1,
    peer_limit: Annotated[int, typer.Option(help="Claims that the peer handles at most; 0: all.")] = 0,
    peer: Annotated[bool, typer.Option(help="Run the peer too.")] = True,  # noqa: FBT002 - typer makes a flag of it
    adversarial: Annotated[bool, typer.Option(help="Run the adversarial files too.")] = True,  # noqa: FBT002
    json: Annotated[Path | None, typer.Option(help="Write all figures to this file.")] = None,
) -> None:
    """Measure both allocators on the same scenario files and print the ratios."""
    console = Console()
    wish = Wish(size, demand, seed)
    try:
        rows, verdicts = _measure(
            console, wish, scenario or CHURN, strategy.value, (rounds, peer_limit), (peer, adversarial)
        )
    except ApportionError as error:
        console.print(f"[red]error:[/] {error}", highlight=False)
        raise typer.Exit(BAD_INPUT) from None
    console.print(_table(rows, wish, strategy.value))
    mean = overall(rows)
    if mean is not None and len(rows) > 1:
        console.print(f"geometric mean of the ratios of claims/s: [bold]{mean:.2f}[/]")
    if verdicts:
        console.print(_adversaries(verdicts))
    if json is not None:
        told: dict[str, Any] = {
            "rows": [row.to_json() for row in rows],
            "geometricMean": mean,
            "adversarial": [{"scenario": v.scenario, "right": v.right, "ms": v.ms} for v in verdicts],
        }
        json.write_bytes(orjson.dumps(told, option=orjson.OPT_INDENT_2))


def _measure(
    console: Console,
    wish: Wish,
    kinds: Sequence[str],
    strategy: str,
    turns: tuple[int, int],
    parts: tuple[bool, bool],
) -> tuple[list[Row], list[Verdict]]:
    rows: list[Row] = []
    verdicts: list[Verdict] = []
    columns = (
        TextColumn("{task.description:<28}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("building the peer", total=len(kinds) + 1)
        yardstick = Peer.build() if parts[0] else None
        progress.advance(task)
        for kind in kinds:
            progress.update(task, description=f"{kind}: making the scenario")
            for file in generate(kind, wish):
                progress.update(task, description=f"{kind}: running")
                rows.append(compare(file, strategy, yardstick, *turns))
            progress.advance(task)
        if parts[1]:
            files = generate("adversarial", Wish("tiny", seed=wish.seed))
            task = progress.add_task("adversarial", total=len(files))
            for file in files:
                verdicts.append(verdict(file, strategy))
                progress.advance(task)
    return rows, verdicts


def _table(rows: Sequence[Row], wish: Wish, strategy: str) -> Table:
    table = Table(title=f"ours ({strategy}) and the peer (first-feasible), size {wish.size}, one thread each")
    table.add_column("scenario", no_wrap=True)
    for name in ("claims", "claims/s", "a CPU s", "p99 ms", "max ms", "unplaced"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(row.scenario, *_cells(row, row.ours))
        if row.peer:
            table.add_row("  peer", *_cells(row, row.peer))
            ratios = (
                row.ratio,
                row.cpu_ratio,
                *(_part(row, key) for key in ("p99Ms", "maxMs")),
            )
            table.add_row("  [bold]ratio[/]", "", *(f"[bold]{ratio:.2f}[/]" for ratio in ratios), "")
        table.add_section()
    return table


def _cells(row: Row, runs: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        f"{row.of(runs, 'claims'):,.0f}",
        f"{row.of(runs, 'claimsPerSecond'):,.0f}",
        f"{row.cpu_rate(runs):,.0f}",
        f"{row.of(runs, 'p99Ms'):.2f}",
        f"{row.of(runs, 'maxMs'):.1f}",
        f"{row.of(runs, 'unallocated'):.0f}",
    ]


def _part(row: Row, key: str) -> float:
    return row.of(row.ours, key) / max(row.of(row.peer, key), 1e-9)


def _adversaries(verdicts: Sequence[Verdict]) -> Table:
    table = Table(title="adversarial files, ours")
    for name in ("file", "verdict", "ms"):
        table.add_column(name, justify="right" if name == "ms" else "left")
    for found in verdicts:
        if found.right and found.ms <= SLOW_MS:
            table.add_row(found.scenario, "right", f"{found.ms:.1f}")
        else:
            colour = "yellow" if found.right else "red"
            word = "right" if found.right else "WRONG"
            table.add_row(
                f"[{colour}]{found.scenario}[/]", f"[{colour}]{word}[/]", f"[{colour}]{found.ms:.1f}[/]"
            )
    return table


if __name__ == "__main__":
    typer.run(main)
