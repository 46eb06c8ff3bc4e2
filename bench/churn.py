"""`python -m bench.churn`: how many claims find no place, ours and the peer in its default mode, on the same files.

In: which scenarios and seeds. Out: a table of unplaced claims per scenario and seed, and with `--json` the same as data.
Ours twice: every claim when it comes, as the peer; and as the operator's queue does it where claims wait together.
What the peer answers is kept: it takes minutes and is the same every time.
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
from apportion.errors import ApportionError
from bench.compare import ours
from bench.files import Wish, generate
from bench.peer import Peer, cache
from bench.seeds import numbers

BAD_INPUT = 2
MOST_SHOWN = 8
"""Seeds that have a column each."""


@dataclass(frozen=True, slots=True)
class Case:
    """One scenario under churn."""

    kind: str
    size: str
    demand: float | None = None

    @property
    def name(self) -> str:
        """Return what the table calls it."""
        asked = f" at {self.demand:.0%}" if self.demand is not None else ""
        return f"{self.kind} {self.size}{asked}"


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
    """Ours, each claim when it comes."""
    queued: tuple[int, ...]
    """Ours, as the operator places claims that wait together: all between two releases."""
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
    """Count the claims that find no place."""
    console = Console()
    cases = [case for case in CASES if not only or any(case.name.startswith(name) for name in only)]
    try:
        chosen = numbers(seeds)
        yardstick = Peer.build() if peer else None
        rows = [_row(case, chosen, strategy.value, yardstick) for case in cases]
    except ApportionError as error:
        console.print(f"[red]error:[/] {error}", highlight=False)
        raise typer.Exit(BAD_INPUT) from None
    console.print(_table(rows, chosen, strategy.value))
    if json is not None:
        told = [
            {"case": row.case.name, "single": row.single, "queued": row.queued, "peer": row.peer}
            for row in rows
        ]
        json.write_bytes(orjson.dumps({"seeds": list(chosen), "rows": told}, option=orjson.OPT_INDENT_2))


def _row(case: Case, seeds: Sequence[int], strategy: str, peer: Peer | None) -> Row:
    files = [generate(case.kind, Wish(case.size, case.demand, seed))[0] for seed in seeds]
    single, queued = (
        tuple(int(ours(file, strategy, *more)["unallocated"]) for file in files)
        for more in (("--one-by-one",), ())
    )
    theirs = tuple(_unplaced(peer, file) for file in files) if peer is not None else ()
    return Row(case, single, queued, theirs)


def _unplaced(peer: Peer, file: Path) -> int:
    kept = cache() / f"{peer.program.name}.{file.parent.name}.unplaced"
    if not kept.exists():
        kept.write_text(str(peer.run(file, first_feasible=False)["unallocated"]))
    return int(kept.read_text())


def _table(rows: Sequence[Row], seeds: Sequence[int], strategy: str) -> Table:
    table = Table(
        title=f"claims that find no place: ours ({strategy}), one by one and queued; the peer (default mode)"
    )
    table.add_column("scenario", no_wrap=True)
    shown = seeds if len(seeds) <= MOST_SHOWN else ()
    for seed in shown:
        table.add_column(f"seed {seed}", justify="right")
    table.add_column("sum", justify="right")
    table.add_column("a seed", justify="right")
    for row in rows:
        for name, lost in ((row.case.name, row.single), ("  queued", row.queued), ("  peer", row.peer)):
            if lost:
                each = map(str, lost) if shown else ()
                table.add_row(name, *each, f"[bold]{sum(lost)}[/]", f"{sum(lost) / len(lost):.2f}")
        table.add_section()
    return table


if __name__ == "__main__":
    typer.run(main)
