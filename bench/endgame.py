"""`python -m bench.endgame`: unplaced claims when a cluster of whole GPUs fills to the last device, and the optimum.

In: seeds; each draws claims with the distribution of the scenario `whole-gpu`, for 1,000 nodes of two models. Out: unplaced
claims per seed with the standard error, the probability that five seeds leave at most five, and what the choices among
the last devices cost compared with the optimum. Claims arrive one by one; nothing is timed.
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
from apportion.allocator.terms import Terms
from apportion.dra.claim import Claim
from bench.generator import ScenarioSpec, generate
from bench.optimum import Choice, Optimum, State
from bench.options import parse_seeds
from bench.refusals import run_command
from bench.scenariofile import Scenario, build, read_json
from bench.scenariorun import allocate_one

SIZES = {1: 0.45, 2: 0.25, 4: 0.15, 8: 0.15}
SELECTORS = {"h100": 0.30, "a100": 0.15, "memory": 0.15, "driver": 0.15, "any": 0.25}
WORDS = {"H100": "h100", "A100": "a100", "60Gi": "memory", "driverVersion": "driver"}
"""Text in a selector -> its name here."""
USES = {"h100": (0,), "memory": (0,), "a100": (1,), "driver": (0, 1), "any": (0, 1)}
"""Models a claim can use, by selector; 0: H100, 1: A100."""
FEW = 5
"""The output has the probability that so many seeds leave at most so many claims."""
SAME = 1e-9
"""Differences of expected claims below this are rounding."""


@dataclass(frozen=True, slots=True)
class LastChoice:
    """One choice among the last devices. `coming`: devices still to be requested, this claim's included."""

    state: State
    coming: int
    count: int
    models: tuple[int, ...]
    made: Choice


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster of the scenario `whole-gpu`, and one claim of it per selector to draw copies of."""

    scenario: Scenario
    models: dict[str, int]
    """Node -> index of its model."""
    texts: dict[str, dict[str, Any]]
    """Selector -> a claim of the scenario that has it."""
    devices: int

    @classmethod
    def read(cls, nodes: str) -> "Cluster":
        """Load the scenario's cluster; raises BrokenInput."""
        (file,) = generate("whole-gpu", ScenarioSpec(nodes))
        content = read_json(file)
        models = {
            row["spec"]["nodeName"]: int("A100" in str(row["spec"]["devices"][0]["attributes"]))
            for row in content["slices"]
        }
        texts = {_selector(row): row for row in content["claims"]}
        return cls(build(content), models, texts, 8 * len(models))

    def draw(self, seed: int) -> Iterator[tuple[str, int, Claim]]:
        """Yield (selector, devices, claim) until all devices of the cluster are requested."""
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

    def fill(self, seed: int, last: int) -> tuple[int, list[LastChoice]]:
        """Allocate a seed's claims; return the number of unplaced claims, and the choices among the `last` devices."""
        free = dict.fromkeys(self.models, 8)
        unplaced, choices = 0, []
        left = coming = self.devices
        for selector, count, claim in self.draw(seed):
            for _ in precompute(self.scenario.state):
                pass
            node = allocate_one(self.scenario, claim, Terms(Strategy.LEAST_FRAGMENTATION)).node
            if node:
                if left <= last:
                    taken = self.models[node], free[node]
                    choices.append(LastChoice(self._state(free), coming, count, USES[selector], taken))
                free[node] -= count
                left -= count
            else:
                unplaced += 1
            coming -= count
        return unplaced, choices

    def _state(self, free: dict[str, int]) -> State:
        rows: tuple[list[int], list[int]] = ([], [])
        for name, count in free.items():
            if count:
                rows[self.models[name]].append(count)
        return tuple(tuple(sorted(row, reverse=True)) for row in rows)


def main(
    seeds: Annotated[str, typer.Option(help="FIRST-LAST, of the claims drawn.")] = "1-200",
    nodes: Annotated[str, typer.Option(help="Nodes of the cluster.")] = "1000",
    last: Annotated[
        int, typer.Option(help="Free devices from which on choices are compared with the optimum; 0: never.")
    ] = 20,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
) -> None:
    """Fill a cluster to the last device, once per seed."""
    console = Console(soft_wrap=True)
    chosen = parse_seeds(seeds)
    _inherited.append((Cluster.read(nodes), last))
    gc.freeze()
    # Every seed starts from the same empty cluster: a fork of this process.
    with get_context("fork").Pool(jobs, maxtasksperchild=1) as pool:
        runs = list(
            track(pool.imap(_fill, chosen, chunksize=1), "filling", len(chosen), console=Console(stderr=True))
        )
    _print(
        console,
        [unplaced for unplaced, _ in runs],
        [choice for _, choices in runs for choice in choices],
        last,
    )


_inherited: list[tuple[Cluster, int]] = []
"""The cluster for forked processes: inherited, because it is too large to be pickled."""


def _fill(seed: int) -> tuple[int, list[LastChoice]]:
    ((cluster, last),) = _inherited
    return cluster.fill(seed, last)


def _print(console: Console, unplaced: Sequence[int], choices: Sequence[LastChoice], last: int) -> None:
    runs = len(unplaced)
    error = statistics.pstdev(unplaced) / runs**0.5
    console.print(f"unplaced claims a seed: [bold]{sum(unplaced) / runs:.3f}[/] ± {error:.3f} ({runs} seeds)")
    counts = sorted(Counter(unplaced).items())
    console.print("seeds by unplaced claims: " + ", ".join(f"{count}: {seeds}" for count, seeds in counts))
    console.print(f"chance that {FEW} such seeds leave at most {FEW}: {_chance(unplaced):.0%}")
    if last and choices:
        best = Optimum(SIZES, _demand())
        costs = [
            best.regret(choice.state, choice.coming, choice.count, choice.models, choice.made)
            for choice in track(choices, "comparing", console=Console(stderr=True))
        ]
        console.print(
            f"choices among the last {last} devices: {len(costs)}, {sum(cost > SAME for cost in costs)} not the best;"
            f" the best would leave [bold]{sum(costs) / runs:.3f}[/] claims a seed fewer"
        )


def _demand() -> dict[tuple[int, ...], float]:
    found: dict[tuple[int, ...], float] = {}
    for selector, fraction in SELECTORS.items():
        found[USES[selector]] = found.get(USES[selector], 0.0) + fraction
    return found


def _chance(unplaced: Sequence[int]) -> float:
    """Return the probability that `FEW` seeds drawn from these leave at most `FEW` claims."""
    one = [unplaced.count(count) / len(unplaced) for count in range(FEW + 1)]
    sums = [1.0] + [0.0] * FEW
    for _ in range(FEW):
        sums = [
            sum(sums[total - count] * one[count] for count in range(total + 1)) for total in range(FEW + 1)
        ]
    return sum(sums)


def _selector(row: dict[str, Any]) -> str:
    text = str(row["spec"]["devices"]["requests"][0]["exactly"].get("selectors"))
    return next((name for word, name in WORDS.items() if word in text), "any")


if __name__ == "__main__":
    run_command(main)
