"""`python -m bench.defragtrace`: requests of a production trace as partitions, by GRMU's two axes: how many are accepted, and which share of those is moved.

In: the openb data set, nodes with eight H100 each, the load. Out: a table for GRMU and its parts, and for the product's strategy without moves and with the planner's.

The trace's pods with one GPU arrive in its order, evenly spread, and stay for as long as there; each asks for the smallest MIG profile that has its share of a GPU's seven compute slices. How long
the whole takes follows from the load: slices asked for by time, of what the cards have. Who finds no place is refused for good; all start with the same empty cluster, and know the future not at all.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Protocol

import orjson
import typer
from rich.console import Console
from rich.table import Table

from apportion.allocator.defrag.moves import Movable, RoomFor
from apportion.allocator.defrag.plan import Planning
from apportion.allocator.demand import Demand
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId
from bench.defrag import TERMS, movable
from bench.defragbaselines import Cluster
from bench.folders import shared
from bench.generator import ScenarioSpec, generate
from bench.grmu import Grmu
from bench.openb.rows import PODS, read_rows
from bench.refusals import run_command
from bench.scenariofile import Scenario, load
from bench.scenariorun import allocate_one

SLICES = {"1g.10gb": 1, "2g.20gb": 2, "3g.40gb": 3, "4g.40gb": 4, "7g.80gb": 7}
"""Compute slices of each profile."""
_WHOLE, _MILLI = 7, 1000
_DRIVER = "gpu.nvidia.com"
CONSOLIDATED = 100
"""Requests after which GRMU consolidates."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request of the trace."""

    name: str
    profile: str
    seconds: float
    """How long it stays."""


class Placing(Protocol):
    """What places requests."""

    moved: set[str]
    """Who was moved."""

    def place(self, request: Request) -> bool:
        """Place a request; says whether it has a place."""

    def end(self, name: str) -> None:
        """Let a request end that has a place."""


@dataclass(slots=True)
class Figures:
    """What became of the requests."""

    requests: int = 0
    slices: int = 0
    """That the requests ask for."""
    accepted: int = 0
    accepted_slices: int = 0
    moved: int = 0
    """Requests that were moved."""


@dataclass(slots=True)
class ByGrmu:
    """GRMU on a cluster."""

    scenario: Scenario
    heavy: float
    moves: bool = True
    moved: set[str] = field(default_factory=set)
    _placed: int = 0
    _grmu: Grmu = field(init=False)
    _kinds: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        cluster = Cluster(self.scenario.state, {})
        self._grmu = Grmu(cluster, self.heavy, moves=self.moves)
        self._kinds = kinds(cluster)
        self.moved = self._grmu.moved

    def place(self, request: Request) -> bool:
        """Place a request."""
        self._placed += 1
        if self._placed % CONSOLIDATED == 0 and self.moves:
            self._grmu.consolidate()
        return self._grmu.place(request.name, self._kinds[request.profile])

    def end(self, name: str) -> None:
        """Let a request end."""
        self._grmu.end(name)


@dataclass(slots=True)
class ByProduct:
    """The product's strategy; who finds no place gets room by the planner's moves, if so many are enough."""

    scenario: Scenario
    most: int = 0
    moved: set[str] = field(default_factory=set)
    _movables: dict[str, Movable] = field(default_factory=dict)

    def place(self, request: Request) -> bool:
        """Place a request."""
        claim = claim_of(request)
        outcome = allocate_one(self.scenario, claim, TERMS)
        if outcome.result is None and self.most:
            planning = Planning(self.scenario.state, [*self._movables.values()], {}, TERMS)
            plan = planning.plan(RoomFor(Demand((claim,))))
            if plan is not None and plan.pods <= self.most:
                for move in plan.moves:
                    key = move.movable.key
                    self._hold(move.movable.demand.claims[0], move.devices[0])
                    self.moved.add(key)
                outcome = allocate_one(self.scenario, claim, TERMS)
        if outcome.result is None:
            return False
        self._hold(claim, outcome.result.results[0].device)
        return True

    def end(self, name: str) -> None:
        """Let a request end."""
        self.scenario.state.release(name)
        del self._movables[name]

    def _hold(self, claim: Claim, device: DeviceId) -> None:
        found = movable(self.scenario.state, claim, device)
        self.scenario.state.hold(claim.name, found.holds[claim.name])
        self._movables[claim.name] = found


def main(
    data: Annotated[Path | None, typer.Option(help="The folder of the openb data set.")] = None,
    nodes: Annotated[int, typer.Option(help="Of eight cards each.", min=1)] = 25,
    loads: Annotated[
        list[float] | None, typer.Option("--load", help="Of what the cards have; may be repeated.")
    ] = None,
    most: Annotated[int, typer.Option(help="Moves that the planner may make for one request.", min=1)] = 4,
    limit: Annotated[int, typer.Option(help="Requests; 0: all.")] = 0,
    json: Annotated[Path | None, typer.Option(help="Write all figures to this file.")] = None,
) -> None:
    """Compare them."""
    console = Console(width=120)
    found: list[tuple[float, str, Figures]] = []
    requests = read(data or shared("data/openb"))[: limit or None]
    asked = sum(SLICES[each.profile] for each in requests)
    large = sum(_WHOLE for each in requests if SLICES[each.profile] == _WHOLE) / asked
    for each in loads or [0.9, 1.1]:
        for name, made in runs(large, most).items():
            scenario = load(generate("mig", ScenarioSpec(str(nodes), 0.9, 1))[0])
            found.append((each, name, figures_of(requests, made(scenario), each, 8 * nodes)))
    table = Table(
        title=f"{len(requests):,} requests, {large:.0%} of the slices by whole cards; {8 * nodes} cards"
    )
    for name in ("load", "by", "accepted", "by number", "by slices", "moved", "share of the accepted"):
        table.add_column(name, justify="left" if name == "by" else "right")
    for each, name, row in found:
        table.add_row(
            f"{each:.0%}",
            name,
            f"{row.accepted:,}",
            f"{row.accepted / row.requests:.1%}",
            f"{row.accepted_slices / row.slices:.1%}",
            f"{row.moved:,}",
            f"{row.moved / max(row.accepted, 1):.2%}",
        )
    console.print(table)
    if json is not None:
        rows = [
            {
                "load": each,
                "by": name,
                "requests": row.requests,
                "accepted": row.accepted,
                "acceptedSlices": row.accepted_slices / row.slices,
                "moved": row.moved,
            }
            for each, name, row in found
        ]
        json.write_bytes(orjson.dumps(rows, option=orjson.OPT_INDENT_2))


def runs(large: float, most: int) -> Mapping[str, Callable[[Scenario], Placing]]:
    """Return what is compared; `large`: the share of the slices that requests for whole cards ask for."""
    return {
        "GRMU's places, no moves, one basket": lambda scenario: ByGrmu(scenario, 1.0, moves=False),
        "GRMU, one basket": lambda scenario: ByGrmu(scenario, 1.0),
        "GRMU, 30% for the largest profile": lambda scenario: ByGrmu(scenario, 0.3),
        f"GRMU, {large:.0%} for the largest profile": lambda scenario: ByGrmu(scenario, large),
        "the product, no moves": ByProduct,
        f"the product, at most {most} moves a request": lambda scenario: ByProduct(scenario, most),
    }


def figures_of(requests: Sequence[Request], placing: Placing, load: float, cards: int) -> Figures:
    """Let all requests come and end."""
    found = Figures()
    step = horizon(requests, load, cards) / len(requests)
    ends: list[tuple[float, str]] = []
    for number, each in enumerate(requests):
        while ends and ends[0][0] <= number * step:
            placing.end(heapq.heappop(ends)[1])
        found.requests += 1
        found.slices += SLICES[each.profile]
        if placing.place(each):
            found.accepted += 1
            found.accepted_slices += SLICES[each.profile]
            heapq.heappush(ends, (number * step + each.seconds, each.name))
    found.moved = len(placing.moved)
    return found


def horizon(requests: Sequence[Request], load: float, cards: int) -> float:
    """Return in how many seconds the requests arrive, so that they ask for this share of what the cards have."""
    low, high = 1.0, 1e9
    for _ in range(60):
        middle = (low + high) / 2
        used = sum(
            SLICES[each.profile] * min(each.seconds, middle * (1 - number / len(requests)))
            for number, each in enumerate(requests)
        )
        low, high = (middle, high) if used > load * cards * _WHOLE * middle else (low, middle)
    return high


def read(folder: Path) -> list[Request]:
    """Return the requests of the trace, in the order in which they arrive."""
    columns = ("name", "num_gpu", "gpu_milli", "creation_time", "deletion_time")
    rows = [row for row in read_rows(folder, PODS, *columns) if row["num_gpu"] == "1"]
    rows.sort(key=lambda row: (int(row["creation_time"]), row["name"]))
    return [
        Request(
            row["name"],
            profile(int(row["gpu_milli"])),
            max(1.0, float(row["deletion_time"]) - float(row["creation_time"])),
        )
        for row in rows
    ]


def profile(milli: int) -> str:
    """Return the smallest profile that has a share of a GPU."""
    return next(name for name, slices in SLICES.items() if milli * _WHOLE <= slices * _MILLI)


def kinds(cluster: Cluster) -> Mapping[str, int]:
    """Return the kind of each profile's devices."""
    found: dict[str, int] = {}
    for local in range(len(cluster.layout.masks)):
        for name in _named(cluster, local):
            found.setdefault(name, cluster.kind(local))
    return found


def _named(cluster: Cluster, local: int) -> Iterator[str]:
    card = cluster.cards[0]
    view = cluster.state.view(card.node)
    device = view.devices[view.groups[card.group].members[local]]
    text = device.attribute(f"{_DRIVER}/profile")
    if isinstance(text, str):
        yield text


def claim_of(request: Request) -> Claim:
    """Return a claim for a request; its UID is its name, as the state has it here."""
    text = f'device.attributes["{_DRIVER}"].profile == "{request.profile}"'
    exactly = {
        "deviceClassName": "mig.nvidia.com",
        "allocationMode": "ExactCount",
        "count": 1,
        "selectors": [{"cel": {"expression": text}}],
    }
    metadata = {"name": request.name, "namespace": "openb", "uid": request.name}
    requests = [{"name": "mig", "exactly": exactly}]
    return Claim.from_json({"metadata": metadata, "spec": {"devices": {"requests": requests}}})


if __name__ == "__main__":
    run_command(main)
