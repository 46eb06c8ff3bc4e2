"""`python -m bench.endgame`: how many claims find no place when whole GPUs are given out to the last one, and how many at best.

In: numbers of seeds, each a list of claims drawn like the scenario `whole-gpu` draws them, for 1,000 nodes of two
models. Out: unplaced claims a seed with the error of that figure, the chance that five seeds leave at most five, and
what our choices among the last devices cost beside the best ones.
"""

import gc
import random
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.progress import track

from apportion.allocator.nodeoutcomes import precompute
from apportion.allocator.search.scorer import Strategy
from apportion.dra.claim import Claim
from apportion.errors import ApportionError
from bench.files import Wish, generate
from bench.optimum import Choice, Optimum, State
from bench.scenario import Scenario, made, read, serve
from bench.seeds import numbers

BAD_INPUT = 2
SIZES = {1: 0.45, 2: 0.25, 4: 0.15, 8: 0.15}
SELECTORS = {"h100": 0.30, "a100": 0.15, "memory": 0.15, "driver": 0.15, "any": 0.25}
WORDS = {"H100": "h100", "A100": "a100", "60Gi": "memory", "driverVersion": "driver"}
"""By what the selectors of the scenario are known."""
USES = {"h100": (0,), "memory": (0,), "a100": (1,), "driver": (0, 1), "any": (0, 1)}
"""Models that a claim can use: H100 and A100."""
FEW = 5
"""Seeds, and claims that they may leave, whose chance is told."""
SAME = 1e-9
"""Difference of expected claims that is none."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One choice among the last devices."""

    state: State
    coming: int
    count: int
    models: tuple[int, ...]
    made: Choice


@dataclass(frozen=True, slots=True)
class Cluster:
    """The scenario, and what its claims look like."""

    scenario: Scenario
    models: dict[str, int]
    """Per node."""
    texts: dict[str, dict[str, Any]]
    """A claim of the scenario per selector."""
    devices: int

    @classmethod
    def read(cls, nodes: str) -> "Cluster":
        """Load the scenario's cluster; raises BrokenInput."""
        (file,) = generate("whole-gpu", Wish(nodes))
        world = read(file)
        models = {
            piece["spec"]["nodeName"]: int("A100" in str(piece["spec"]["devices"][0]["attributes"]))
            for piece in world["slices"]
        }
        texts = {_selector(row): row for row in world["claims"]}
        return cls(made(world), models, texts, 8 * len(models))

    def draw(self, seed: int) -> Iterator[tuple[str, int, Claim]]:
        """Yield (selector, devices, claim) until as many devices were asked for as there are."""
        rng = random.Random(f"endgame/{seed}")
        left = self.devices
        while left:
            count = min(left, *rng.choices(tuple(SIZES), tuple(SIZES.values())))
            (selector,) = rng.choices(tuple(SELECTORS), tuple(SELECTORS.values()))
            left -= count
            row = orjson.loads(orjson.dumps(self.texts[selector]))
            row["metadata"] |= {"name": f"claim-{left}", "uid": f"claim-{left}"}
            row["spec"]["devices"]["requests"][0]["exactly"]["count"] = count
            yield selector, count, Claim.from_json(row)

    def play(self, seed: int, last: int) -> tuple[int, list[Turn]]:
        """Allocate a seed's claims; return how many found no place, and the choices among the last devices."""
        free = dict.fromkeys(self.models, 8)
        lost, turns = 0, []
        left = coming = self.devices
        for selector, count, claim in self.draw(seed):
            precompute(self.scenario.state)
            node = serve(self.scenario, claim, Strategy.LEAST_FRAGMENTATION).node
            if node:
                if left <= last:
                    taken = self.models[node], free[node]
                    turns.append(Turn(self._stands(free), coming, count, USES[selector], taken))
                free[node] -= count
                left -= count
            else:
                lost += 1
            coming -= count
        return lost, turns

    def _stands(self, free: dict[str, int]) -> State:
        rows: tuple[list[int], list[int]] = ([], [])
        for name, count in free.items():
            if count:
                rows[self.models[name]].append(count)
        return tuple(tuple(sorted(row, reverse=True)) for row in rows)


def main(
    seeds: Annotated[str, typer.Option(help="FIRST-LAST, of the claims drawn.")] = "1-200",
    nodes: Annotated[str, typer.Option(help="Nodes of the cluster.")] = "1000",
    last: Annotated[
        int, typer.Option(help="Free devices from which on choices are compared; 0: never.")
    ] = 20,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
) -> None:
    """Fill a cluster to the last device, again and again."""
    console = Console(soft_wrap=True)
    try:
        chosen = numbers(seeds)
        _board.append((Cluster.read(nodes), last))
    except ApportionError as error:
        console.print(f"[red]error:[/] {error}", highlight=False)
        raise typer.Exit(BAD_INPUT) from None
    gc.freeze()
    # Every seed starts from the same empty cluster: a fork of this process.
    with get_context("fork").Pool(jobs, maxtasksperchild=1) as pool:
        games = list(
            track(pool.imap(_play, chosen, chunksize=1), "filling", len(chosen), console=Console(stderr=True))
        )
    _tell(console, [lost for lost, _ in games], [turn for _, turns in games for turn in turns], last)


_board: list[tuple[Cluster, int]] = []
"""Where a forked process finds its cluster, which is too large to be sent."""


def _play(seed: int) -> tuple[int, list[Turn]]:
    ((cluster, last),) = _board
    return cluster.play(seed, last)


def _tell(console: Console, losses: Sequence[int], turns: Sequence[Turn], last: int) -> None:
    games = len(losses)
    error = statistics.pstdev(losses) / games**0.5
    console.print(f"unplaced claims a seed: [bold]{sum(losses) / games:.3f}[/] ± {error:.3f} ({games} seeds)")
    counts = sorted(Counter(losses).items())
    console.print("seeds by unplaced claims: " + ", ".join(f"{lost}: {seeds}" for lost, seeds in counts))
    console.print(f"chance that {FEW} such seeds leave at most {FEW}: {_chance(losses):.0%}")
    if last and turns:
        best = Optimum(SIZES, _demand())
        costs = [
            best.regret(turn.state, turn.coming, turn.count, turn.models, turn.made)
            for turn in track(turns, "comparing", console=Console(stderr=True))
        ]
        console.print(
            f"choices among the last {last} devices: {len(costs)}, {sum(cost > SAME for cost in costs)} not the best;"
            f" the best would leave [bold]{sum(costs) / games:.3f}[/] claims a seed fewer"
        )


def _demand() -> dict[tuple[int, ...], float]:
    found: dict[tuple[int, ...], float] = {}
    for selector, part in SELECTORS.items():
        found[USES[selector]] = found.get(USES[selector], 0.0) + part
    return found


def _chance(losses: Sequence[int]) -> float:
    """Return the chance that so few seeds, drawn from these, leave at most so few claims."""
    one = [losses.count(lost) / len(losses) for lost in range(FEW + 1)]
    sums = [1.0] + [0.0] * FEW
    for _ in range(FEW):
        sums = [sum(sums[total - lost] * one[lost] for lost in range(total + 1)) for total in range(FEW + 1)]
    return sum(sums)


def _selector(row: dict[str, Any]) -> str:
    text = str(row["spec"]["devices"]["requests"][0]["exactly"].get("selectors"))
    return next((name for word, name in WORDS.items() if word in text), "any")


if __name__ == "__main__":
    typer.run(main)
