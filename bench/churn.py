"""`python -m bench.churn`: unplaced claims of ours and of the peer in its default mode, on the same files.

In: scenarios and seeds. Out: a table of unplaced claims per scenario and seed, and with `--json` the same as JSON.
Ours runs twice: one by one, each claim as if no other waited, as the peer; and queued, with all claims between two releases waiting together.
The peer's counts are cached: they take minutes and are deterministic. An unplaced claim is not tried a second time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.table import Table

from apportion.allocator.search.scorer import Strategy
from bench.compare import ours
from bench.folders import cache
from bench.generator import ScenarioSpec, generate
from bench.options import parse_seeds
from bench.peer import Peer
from bench.refusals import run_command

MOST_SHOWN = 8
"""Largest number of seeds with a column each."""


@dataclass(frozen=True, slots=True)
class Case:
    """One scenario under churn."""

    scenario: str
    size: str
    demand: float | None = None

    @property
    def name(self) -> str:
        """Return the name in the table."""
        demand = f" at {self.demand:.0%}" if self.demand is not None else ""
        return f"{self.scenario} {self.size}{demand}"


CASES = (
    Case("mig", "small"),
    Case("mig", "16", 0.95),
    Case("mig", "32", 0.95),
    Case("whole-gpu", "small"),
    Case("whole-gpu", "large"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """Unplaced claims of one case, seed by seed."""

    case: Case
    single: tuple[int, ...]
    """Ours, one by one."""
    queued: tuple[int, ...]
    """Ours, with all claims between two releases waiting together."""
    peer: tuple[int, ...]


def main(
    only: Annotated[
        list[str] | None, typer.Option(help="Only cases whose name begins like this; may be repeated.")
    ] = None,
    seeds: Annotated[str, typer.Option(help="FIRST-LAST, of the scenarios.")] = "1-5",
    strategy: Annotated[Strategy, typer.Option(help="Ours.")] = Strategy.LEAST_FRAGMENTATION,
    peer: Annotated[bool, typer.Option(help="Run the peer too.")] = True,  # noqa: FBT002 - typer makes a flag of it
    json: Annotated[Path | None, typer.Option(help="Write all figures to this file.")] = None,
) -> None:
    """Count the unplaced claims."""
    console = Console()
    cases = [case for case in CASES if not only or any(case.name.startswith(name) for name in only)]
    chosen = parse_seeds(seeds)
    built = Peer.build() if peer else None
    rows = [_row(case, chosen, strategy.value, built) for case in cases]
    console.print(_table(rows, chosen, strategy.value))
    if json is not None:
        figures = [
            {"case": row.case.name, "single": row.single, "queued": row.queued, "peer": row.peer}
            for row in rows
        ]
        json.write_bytes(orjson.dumps({"seeds": list(chosen), "rows": figures}, option=orjson.OPT_INDENT_2))


def _row(case: Case, seeds: Sequence[int], strategy: str, peer: Peer | None) -> Row:
    files = [generate(case.scenario, ScenarioSpec(case.size, case.demand, seed))[0] for seed in seeds]
    single, queued = (
        tuple(int(ours(file, strategy, *more)["unallocated"]) for file in files)
        for more in (("--one-by-one",), ())
    )
    theirs = tuple(_unplaced(peer, file) for file in files) if peer is not None else ()
    return Row(case, single, queued, theirs)


def _unplaced(peer: Peer, file: Path) -> int:
    cached = cache() / f"{peer.program.name}.{file.parent.name}.unplaced"
    if not cached.exists():
        cached.write_text(str(peer.run(file, first_feasible=False)["unallocated"]))
    return int(cached.read_text())


def _table(rows: Sequence[Row], seeds: Sequence[int], strategy: str) -> Table:
    table = Table(title=f"unplaced claims: ours ({strategy}), one by one and queued; the peer (default mode)")
    table.add_column("scenario", no_wrap=True)
    shown = seeds if len(seeds) <= MOST_SHOWN else ()
    for seed in shown:
        table.add_column(f"seed {seed}", justify="right")
    table.add_column("sum", justify="right")
    table.add_column("a seed", justify="right")
    for row in rows:
        for name, unplaced in ((row.case.name, row.single), ("  queued", row.queued), ("  peer", row.peer)):
            if unplaced:
                each = map(str, unplaced) if shown else ()
                table.add_row(
                    name, *each, f"[bold]{sum(unplaced)}[/]", f"{sum(unplaced) / len(unplaced):.2f}"
                )
        table.add_section()
    return table


if __name__ == "__main__":
    run_command(main)
