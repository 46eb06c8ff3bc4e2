"""`python -m bench.openb`: how much of a production cluster's devices gets allocated before nothing fits.

In: the folder of the openb data set. Out: one JSON line a seed: allocation in % at arrived 95, 100 and 130 %, and the
arrived % at the first dropped pod.
"""

import sys
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.progress import Progress

from apportion.errors import BrokenInput
from bench.openb.bestfit import BestFit
from bench.openb.fgd import Fgd
from bench.openb.figures import CHECKPOINTS, Figures, measure
from bench.openb.policy import Policy
from bench.openb.replay import Replay, Ties
from bench.openb.sisters import sister
from bench.openb.trace import Trace, make_seed, read_seed, read_trace
from bench.openb.worth.free import Free
from bench.openb.worth.node_worth import NodeWorth

BAD_INPUT = 2


class Choice(Enum):
    """The policies that can be replayed."""

    WORTH = "worth"
    """The product's."""
    FGD = "fgd"
    BEST_FIT = "bestfit"


class TieBreak(Enum):
    """Which of the nodes with the best score is taken."""

    RANK = "rank"
    RANDOM = "random"


def main(
    data: Annotated[Path, typer.Option(help="The folder with the files of the data set.")],
    trace: Annotated[str, typer.Option(help="Which pod list: openb_pod_list_TRACE.csv[.gz].")] = "default",
    seed: Annotated[list[int] | None, typer.Option(help="Order of arrival; may be repeated.")] = None,
    ties: Annotated[TieBreak, typer.Option(help="Among equals, the lowest rank or any.")] = TieBreak.RANK,
    policy: Annotated[Choice, typer.Option(help="worth is ours; the others are references.")] = Choice.WORTH,
    sisters: Annotated[
        int, typer.Option(min=0, help="So many other lists of the same family, ours and FGD side by side.")
    ] = 0,
) -> None:
    """Replay a trace and print one JSON line a seed, or one a sister list."""
    try:
        read = read_trace(data, trace)
        if sisters:
            _sisters(read, sisters, (seed or [42])[0], ties.value)
            return
        for number in seed or [42]:
            figures = replay(read, data, number, policy, ties.value)
            sys.stdout.write(orjson.dumps(_line(trace, number, figures)).decode() + "\n")
            sys.stdout.flush()
    except BrokenInput as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from None


def replay(trace: Trace, data: Path, number: int, choice: Choice, ties: Ties) -> Figures:
    """Run one seed, with a progress bar on a terminal."""
    seed = read_seed(data, trace, number)
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"{trace.name}, seed {number}", total=len(seed.arrivals))
        run = Replay(trace, seed, MAKERS[choice](trace), ties)
        return measure(run.run(lambda: progress.advance(task)), trace.capacity)


def _sisters(trace: Trace, count: int, number: int, ties: Ties) -> None:
    """Print ours, the reference and the difference for every list."""
    for which in range(count):
        made = sister(trace, which)
        seed = make_seed(made, number)
        told: dict[str, object] = {"trace": made.name, "seed": number}
        figures = {
            choice: measure(Replay(made, seed, MAKERS[choice](made), ties).run(), made.capacity)
            for choice in (Choice.WORTH, Choice.FGD)
        }
        for choice, found in figures.items():
            told[choice.value] = _line(made.name, number, found)["allocation"]
            told[f"{choice.value}FirstDrop"] = found.first_drop and round(found.first_drop, 3)
        mine, theirs = (figures[choice].allocation for choice in (Choice.WORTH, Choice.FGD))
        told["ahead"] = {
            str(at): round(mine[at] - theirs[at], 3) for at in CHECKPOINTS if at in mine and at in theirs
        }
        sys.stdout.write(orjson.dumps(told).decode() + "\n")
        sys.stdout.flush()


def _line(trace: str, number: int, figures: Figures) -> dict[str, object]:
    # A pod list that asks for less than a checkpoint never comes there.
    allocation = {str(at): round(figures.allocation[at], 3) for at in CHECKPOINTS if at in figures.allocation}
    first = None if figures.first_drop is None else round(figures.first_drop, 3)
    return {"trace": trace, "seed": number, "allocation": allocation, "firstDrop": first}


MAKERS: dict[Choice, Callable[[Trace], Policy]] = {
    Choice.WORTH: lambda trace: NodeWorth(trace.demand(), _empty(trace)),
    Choice.FGD: lambda trace: Fgd(trace.demand()),
    Choice.BEST_FIT: lambda _: BestFit(),
}


def _empty(trace: Trace) -> Iterable[Free]:
    return (node.free for node in trace.nodes)


if __name__ == "__main__":
    typer.run(main)
