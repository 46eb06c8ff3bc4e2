"""`python -m bench.openb`: how much of a production cluster's devices the product allocates, or another policy.

In: the folder of the openb data set. Out: one JSON line per seed: allocation in % at arrived 95,
100 and 130 %, and the arrived % at the first dropped pod. With `--strategy` the product's allocator
replays the trace (`bench.openb.product`); else a policy: `worth`, a bound that knows the demand of
the whole pod list beforehand (`bench.openb.bound`); `fgd` and `bestfit`, as published. `--times`
adds the product's claims per second and the time of a claim in ms (median, 99th percentile, longest).
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.progress import Progress

from apportion.allocator.search.scorer import Strategy
from bench.openb.bestfit import BestFit
from bench.openb.bound.knowndemand import KnownDemand
from bench.openb.fgd import Fgd
from bench.openb.figures import CHECKPOINTS, Figures, measure
from bench.openb.model import FreeNode
from bench.openb.policy import Policy
from bench.openb.product import CpuPods, ProductReplay
from bench.openb.replay import Replay, Ties
from bench.openb.trace import Seed, Trace, make_seed, read_seed, read_trace
from bench.openb.variants import variant
from bench.refusals import run_command
from bench.scenariorun import percentile


class Choice(Enum):
    """The policies."""

    BOUND = "worth"
    """The bound that knows the demand; not the product. Its value is an option and a JSON key, which keep their names."""
    FGD = "fgd"
    BEST_FIT = "bestfit"


class TieBreak(Enum):
    """Choice among the nodes with the best score."""

    RANK = "rank"
    RANDOM = "random"


def main(
    data: Annotated[Path, typer.Option(help="The folder with the files of the data set.")],
    trace: Annotated[str, typer.Option(help="Which pod list: openb_pod_list_TRACE.csv[.gz].")] = "default",
    seed: Annotated[list[int] | None, typer.Option(help="Order of arrival; may be repeated.")] = None,
    ties: Annotated[TieBreak, typer.Option(help="Among equals, the lowest rank or any.")] = TieBreak.RANK,
    policy: Annotated[
        Choice,
        typer.Option(
            help="worth: the bound that knows the demand, not the product; fgd, bestfit: as published."
        ),
    ] = Choice.BOUND,
    strategy: Annotated[
        Strategy | None,
        typer.Option(help="Replay through the product with this strategy, not with a policy."),
    ] = None,
    cpu_pods: Annotated[
        CpuPods,
        typer.Option(
            help="Of the product: who places pods without devices; kube: kube-scheduler's LeastAllocated; advice: the "
            "strategy's curve of cpu and memory."
        ),
    ] = CpuPods.KUBE,
    times: Annotated[bool, typer.Option("--times", help="Of the product: add the time of claims.")] = False,  # noqa: FBT002
    sisters: Annotated[
        int,
        typer.Option(
            min=0,
            help="Replay so many variants of the pod list, with FGD and with the bound, or with the product if there is a strategy.",
        ),
    ] = 0,
) -> None:
    """Replay a trace and print one JSON line per seed, or per variant of the pod list."""
    read = read_trace(data, trace)
    if sisters:
        _variants(read, sisters, (seed or [42])[0], ties.value, strategy, cpu_pods)
        return
    for number in seed or [42]:
        order = read_seed(data, read, number)
        run = (
            Replay(read, order, POLICIES[policy](read), ties.value)
            if strategy is None
            else ProductReplay(read, order, strategy, cpu_pods)
        )
        line = _line(trace, number, replay(read, order, run))
        if times and isinstance(run, ProductReplay):
            line |= _times(run.seconds)
        sys.stdout.write(orjson.dumps(line).decode() + "\n")
        sys.stdout.flush()


def replay(trace: Trace, seed: Seed, run: Replay | ProductReplay) -> Figures:
    """Run one seed, with a progress bar on a terminal."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"{trace.name}, seed {seed.number}", total=len(seed.arrivals))
        return measure(run.run(lambda: progress.advance(task)), trace.capacity)


def _variants(
    trace: Trace, count: int, number: int, ties: Ties, strategy: Strategy | None, cpu_pods: CpuPods
) -> None:
    """Print the figures of the bound or of the product, FGD's and the difference for every variant."""
    mine = Choice.BOUND.value if strategy is None else "product"
    for which in range(count):
        found = variant(trace, which)
        seed = make_seed(found, number)
        figures = {
            mine: measure(
                Replay(found, seed, POLICIES[Choice.BOUND](found), ties).run()
                if strategy is None
                else ProductReplay(found, seed, strategy, cpu_pods).run(),
                found.capacity,
            ),
            Choice.FGD.value: measure(Replay(found, seed, Fgd(found.demand()), ties).run(), found.capacity),
        }
        line: dict[str, object] = {"trace": found.name, "seed": number}
        for name, figure in figures.items():
            line[name] = _line(found.name, number, figure)["allocation"]
            line[f"{name}FirstDrop"] = figure.first_drop and round(figure.first_drop, 3)
        ahead, fgd = (figure.allocation for figure in figures.values())
        line["ahead"] = {
            str(at): round(ahead[at] - fgd[at], 3) for at in CHECKPOINTS if at in ahead and at in fgd
        }
        sys.stdout.write(orjson.dumps(line).decode() + "\n")
        sys.stdout.flush()


def _line(trace: str, number: int, figures: Figures) -> dict[str, object]:
    # A pod list that requests less than a checkpoint has no value there.
    allocation = {str(at): round(figures.allocation[at], 3) for at in CHECKPOINTS if at in figures.allocation}
    first = None if figures.first_drop is None else round(figures.first_drop, 3)
    return {"trace": trace, "seed": number, "allocation": allocation, "firstDrop": first}


def _times(seconds: Sequence[float]) -> dict[str, object]:
    ordered = sorted(seconds)
    return {
        "claimsPerSecond": round(len(ordered) / sum(ordered), 1),
        "p50Ms": round(1000 * percentile(ordered, 0.5), 3),
        "p99Ms": round(1000 * percentile(ordered, 0.99), 3),
        "maxMs": round(1000 * ordered[-1], 3),
    }


POLICIES: dict[Choice, Callable[[Trace], Policy]] = {
    Choice.BOUND: lambda trace: KnownDemand(trace.demand(), _empty(trace)),
    Choice.FGD: lambda trace: Fgd(trace.demand()),
    Choice.BEST_FIT: lambda _: BestFit(),
}


def _empty(trace: Trace) -> Iterable[FreeNode]:
    return (node.free for node in trace.nodes)


if __name__ == "__main__":
    run_command(main)
