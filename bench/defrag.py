"""`python -m bench.defrag`: whole cards that are freed on a churned cluster, by the planner and by two published ideas, with the same number of moves.

In: nodes with eight cards each, seeds, budgets of moves. Out: a table of cards freed, moves made and cards freed per move.

The cluster is filled to 90 % with partitions and churned three times by the product's own strategy (`bench.churn`'s scenario), then a share of the claims, drawn
at random, ends. Each claim is a pod of its own that may move, and nothing else moves. All three begin with the same state; a move is a restart, so its new place is free while the old
one is taken.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, TypeAlias

import orjson
import typer
from rich.console import Console
from rich.table import Table

from apportion.allocator.defrag.moves import FreeCards, Movable
from apportion.allocator.defrag.plan import Planning
from apportion.allocator.demand import Demand
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from apportion.dra.allocation import DeviceResult
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId
from bench.defragbaselines import Cluster, by_metric, by_vacating
from bench.generator import ScenarioSpec, generate
from bench.options import parse_seeds
from bench.refusals import run_command
from bench.scenariofile import Scenario, load
from bench.scenariorun import allocate_one

TERMS = Terms(Strategy.LEAST_FRAGMENTATION)
Held: TypeAlias = dict[str, DeviceId]
"""The device of each claim, by its name."""
ALL_CARDS = 10_000
"""More cards than there are: the budget of moves ends it."""


@dataclass(slots=True)
class Figures:
    """What one of them did with a budget, summed over the seeds."""

    freed: int = 0
    moves: int = 0
    seconds: float = 0.0
    """CPU time."""

    @property
    def per_move(self) -> float:
        """Cards freed per move."""
        return self.freed / self.moves if self.moves else 0.0


def main(
    nodes: Annotated[int, typer.Option(help="Of eight cards each.", min=2)] = 100,
    seeds: Annotated[str, typer.Option(help="FIRST-LAST.")] = "1-3",
    ended: Annotated[
        float, typer.Option(help="Share of the claims that ends in the end.", min=0, max=1)
    ] = 0.25,
    budget: Annotated[
        list[int] | None, typer.Option(help="Moves that each may make; may be repeated.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write all figures to this file.")] = None,
) -> None:
    """Compare them."""
    console = Console(width=110)
    budgets = budget or [25, 50, 100, 200]
    found: dict[tuple[int, str], Figures] = {}
    used = free = 0
    for seed in parse_seeds(seeds):
        scenario, held = churned(nodes, seed, ended)
        cluster = Cluster(scenario.state, dict(held))
        before = cluster.free()
        used, free = used + len(cluster.cards) - before, free + before
        for moves in budgets:
            for name, run in RUNS.items():
                began = time.process_time()
                freed, made = run(scenario, held, moves)
                row = found.setdefault((moves, name), Figures())
                row.freed, row.moves = row.freed + freed, row.moves + made
                row.seconds += time.process_time() - began
    title = f"{nodes} nodes, seeds {seeds}, {ended:.0%} of the claims ended: {used} cards in use, {free} free"
    table = Table(title=title)
    for name in ("budget", "by", "cards freed", "moves", "cards per move", "CPU s"):
        table.add_column(name, justify="left" if name == "by" else "right")
    for (moves, name), row in found.items():
        table.add_row(
            str(moves), name, str(row.freed), str(row.moves), f"{row.per_move:.3f}", f"{row.seconds:.1f}"
        )
    console.print(table)
    if json is not None:
        rows = [
            {"budget": moves, "by": name, "freed": row.freed, "moves": row.moves}
            for (moves, name), row in found.items()
        ]
        json.write_bytes(orjson.dumps(rows, option=orjson.OPT_INDENT_2))


def churned(nodes: int, seed: int, ended: float) -> tuple[Scenario, Held]:
    """Return a churned cluster, and the device of each claim that is left."""
    scenario = load(generate("mig", ScenarioSpec(str(nodes), 0.9, seed))[0])
    held: Held = {}
    for event in scenario.events:
        if event.op == "release":
            scenario.state.release(event.claim)
            held.pop(event.claim, None)
            continue
        outcome = allocate_one(scenario, scenario.claims[event.claim], TERMS)
        if outcome.result is not None:
            held[event.claim] = outcome.result.results[0].device
    rng = random.Random(seed)
    for name in rng.sample(sorted(held), round(ended * len(held))):
        scenario.state.release(name)
        del held[name]
    return scenario, held


def planned(scenario: Scenario, held: Held, most: int) -> tuple[int, int]:
    """Return the cards that the planner's moves free, and how many they are."""
    # The state has the claims under their names here.
    claims = {name: replace(scenario.claims[name], uid=name) for name in held}
    movables = [movable(scenario.state, claims[name], device) for name, device in held.items()]
    found = Planning(scenario.state, movables, {}, TERMS).plan(FreeCards(ALL_CARDS, most))
    moves = found.moves if found is not None else ()

    def run(cluster: Cluster, _most: int) -> None:
        for move in moves:
            cluster.put(move.movable.key, move.devices[0])
            cluster.moves += 1

    return _counted(run)(scenario, held, most)


def _counted(run: Callable[[Cluster, int], None]) -> Callable[[Scenario, Held, int], tuple[int, int]]:
    def freed(scenario: Scenario, held: Held, most: int) -> tuple[int, int]:
        cluster = Cluster(scenario.state, dict(held))
        before = cluster.free()
        run(cluster, most)
        found = cluster.free() - before, cluster.moves
        for name, device in held.items():
            cluster.put(name, device)
        return found

    return freed


def movable(state: State, claim: Claim, device: DeviceId) -> Movable:
    """Return what may move of a claim that has a device; the state has it under its UID."""
    [node] = state.nodes_of(device)
    return Movable(claim.uid, node, Demand((claim,)), {claim.uid: (DeviceResult("r", device),)})


RUNS = {
    "the planner": planned,
    "Zambianco's metric": _counted(by_metric),
    "WPM's heuristic": _counted(by_vacating),
}
"""What is compared."""


if __name__ == "__main__":
    run_command(main)
