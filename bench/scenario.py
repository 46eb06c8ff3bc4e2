"""Run one scenario file with our allocator and print one JSON line of figures, with the keys of the Go peer.

In: a scenario file, plain or gzipped. Out: one JSON line; with `--out` also a file with one JSON line per claim.
`python -m bench.scenario FILE [--strategy LeastFragmentation] [--out FILE] [--timeout 10s]`
"""

import sys
import time
from pathlib import Path
from typing import Annotated

import orjson
import typer

from apportion.allocator.search.scorer import Strategy
from apportion.errors import BrokenInput
from bench.deadline import seconds
from bench.refusals import run_command
from bench.scenariofile import load
from bench.scenariorun import run


def main(
    file: Annotated[Path, typer.Argument(help="The scenario, .json or .json.gz.")],
    strategy: Annotated[
        Strategy, typer.Option(help="How to choose among placements that all fit.")
    ] = Strategy.LEAST_FRAGMENTATION,
    out: Annotated[Path | None, typer.Option(help="Write one JSON line per claim to this file.")] = None,
    timeout: Annotated[str, typer.Option(help="Limit per claim, such as 10s or 500ms; 0: none.")] = "0",
    most: Annotated[int, typer.Option("--limit", help="Claims handled at most; 0: all.")] = 0,
    ticks: Annotated[bool, typer.Option("--ticks", help="Measure the CPU time of every claim too.")] = False,  # noqa: FBT002
    waiting: Annotated[  # noqa: FBT002
        bool,
        typer.Option(
            "--waiting/--one-by-one",
            help="Claims between two releases wait together and the last 64 of them are planned together, as by the "
            "operator if it sees them all at once; or each claim is allocated as if no other waited, as by the peer.",
        ),
    ] = True,
) -> None:
    """Allocate the claims of a scenario and print the figures as one JSON line."""
    try:
        limit = seconds(timeout)
        began = time.perf_counter()
        scenario = load(file)
        load_seconds = time.perf_counter() - began
        outcomes, figures = run(scenario, strategy, limit, most, ticks=ticks, waiting=waiting)
    except BrokenInput as error:
        raise BrokenInput(str(error), field=str(file)) from None
    if out is not None:
        lines = (orjson.dumps(outcome.to_json()) for outcome in outcomes)
        out.write_bytes(b"".join(line + b"\n" for line in lines))
    sys.stdout.write(orjson.dumps(figures | {"loadSeconds": load_seconds}).decode() + "\n")


if __name__ == "__main__":
    run_command(main)
