"""Run one scenario file with our allocator and print one JSON line of figures, with the keys of the Go peer.

In: a scenario file, plain or gzipped. Out: one JSON line; with `--out` one JSON line per claim beside it.
`python -m bench.scenario FILE [--strategy LeastFragmentation] [--out FILE] [--timeout 10s]`
"""

import gc
import gzip
import resource
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.score.strategy import Strategy
from apportion.allocator.state import State
from apportion.dra.claim import Claim
from apportion.dra.deviceclass import DeviceClass
from apportion.dra.slice import Slice
from apportion.errors import BrokenInput
from bench.deadline import Expired, deadline, seconds

BAD_INPUT = 2


@dataclass(frozen=True, slots=True)
class Event:
    """A claim comes or goes."""

    op: str
    claim: str


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster, and the claims that come and go."""

    name: str
    state: State
    nodes: int
    devices: int
    claims: Mapping[str, Claim]
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one claim."""

    claim: str
    status: str
    """allocated, unallocated, timeout or error."""
    ms: float
    """From the claim object to the AllocationResult, with hold()."""
    nodes: int
    """Nodes that could be asked."""
    node: str = ""
    error: str = ""
    result: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the peer's line for one claim."""
        line: dict[str, Any] = {"claim": self.claim, "status": self.status}
        if self.node:
            line["node"] = self.node
        line |= {"ms": self.ms, "nodesTried": self.nodes}
        if self.error:
            line["error"] = self.error
        if self.result is not None:
            line["result"] = self.result
        return line


def main(
    file: Annotated[Path, typer.Argument(help="The scenario, .json or .json.gz.")],
    strategy: Annotated[
        Strategy, typer.Option(help="How to choose among places that would all do.")
    ] = Strategy.LEAST_FRAGMENTATION,
    out: Annotated[Path | None, typer.Option(help="Write one JSON line per claim to this file.")] = None,
    timeout: Annotated[str, typer.Option(help="Limit per claim, such as 10s or 500ms; 0: none.")] = "0",
) -> None:
    """Allocate the claims of a scenario and print the figures as one JSON line."""
    try:
        limit = seconds(timeout)
        began = time.perf_counter()
        scenario = load(file)
        load_seconds = time.perf_counter() - began
        outcomes, figures = run(scenario, strategy, limit)
    except BrokenInput as error:
        typer.echo(f"error: {file}: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from None
    if out is not None:
        lines = (orjson.dumps(outcome.to_json()) for outcome in outcomes)
        out.write_bytes(b"".join(line + b"\n" for line in lines))
    sys.stdout.write(orjson.dumps(figures | {"loadSeconds": load_seconds}).decode() + "\n")


def load(path: Path) -> Scenario:
    """Read a scenario into the allocator's state; raises BrokenInput."""
    try:
        raw = path.read_bytes()
        if raw.startswith(b"\x1f\x8b"):
            raw = gzip.decompress(raw)
        world = orjson.loads(raw)
    except OSError as error:
        raise BrokenInput(str(error.strerror)) from None
    except orjson.JSONDecodeError as error:
        raise BrokenInput(f"not JSON: {error}") from None
    state = State()
    for node in world["nodes"]:
        state.put_node(node["metadata"]["name"], node["metadata"].get("labels") or {})
    for row in world["classes"]:
        device_class = DeviceClass.from_json(row)
        state.put_class(device_class)
        for selector in device_class.selectors:
            # A running operator has compiled the selectors of its classes long before a claim comes.
            state.programs.get(selector)
    devices = 0
    for row in world["slices"]:
        piece = Slice.from_json(row)
        devices += len(piece.devices)
        state.put_slice(piece)
    state.settle()
    claims = {claim.name: claim for claim in map(Claim.from_json, world["claims"])}
    if len(claims) < len(world["claims"]):
        raise BrokenInput("two claims have one name", field="claims")
    events = tuple(Event(row["op"], row["claim"]) for row in world.get("events") or ())
    return Scenario(
        world["name"],
        state,
        len(world["nodes"]),
        devices,
        claims,
        events or tuple(Event("allocate", name) for name in claims),
    )


def run(scenario: Scenario, strategy: Strategy, limit: float = 0) -> tuple[list[Outcome], dict[str, Any]]:
    """Let the claims come and go; return what became of each, and the peer's figures.

    `limit`: seconds per claim, 0: none.
    """
    outcomes: list[Outcome] = []
    held: set[str] = set()
    released = 0
    with _quiet_collector():
        cpu, began = time.process_time(), time.perf_counter()
        for event in scenario.events:
            if event.op == "release":
                if event.claim in held:
                    scenario.state.release(event.claim)
                    held.discard(event.claim)
                    released += 1
                continue
            outcome = _one(scenario, scenario.claims[event.claim], strategy, limit)
            if outcome.status == "allocated":
                held.add(event.claim)
            outcomes.append(outcome)
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
    return outcomes, _figures(scenario, strategy, outcomes, released) | {
        "seconds": took,
        "cpuSeconds": cpu,
        "claimsPerSecond": len(outcomes) / took if took else 0.0,
    }


def _one(scenario: Scenario, claim: Claim, strategy: Strategy, limit: float) -> Outcome:
    state, found, status, error = scenario.state, None, "unallocated", ""
    result = None
    began = time.perf_counter()
    try:
        with deadline(limit):
            found = allocate(state, Demand((claim,)), strategy=strategy)
        if found.asked is not None:
            state.learn(found.asked)
        if isinstance(found, Decision):
            status = "allocated"
            result = found.allocations[0].to_json()
            state.hold(claim.name, found.allocations[0].results)
    except Expired:
        status = "timeout"
    except BrokenInput as broken:
        status, error = "error", str(broken)
    ms = (time.perf_counter() - began) * 1000
    node = found.node if isinstance(found, Decision) else ""
    return Outcome(claim.name, status, ms, scenario.nodes, node, error, result)


def _figures(
    scenario: Scenario, strategy: Strategy, outcomes: list[Outcome], released: int
) -> dict[str, Any]:
    statuses = [outcome.status for outcome in outcomes]
    times = sorted(outcome.ms for outcome in outcomes)
    return {
        "scenario": scenario.name,
        "nodes": scenario.nodes,
        "devices": scenario.devices,
        "claims": len(outcomes),
        "allocated": statuses.count("allocated"),
        "unallocated": statuses.count("unallocated"),
        "timeouts": statuses.count("timeout"),
        "errors": statuses.count("error"),
        "released": released,
        "notReached": 0,
        "p50Ms": percentile(times, 0.5),
        "p99Ms": percentile(times, 0.99),
        "maxMs": percentile(times, 1),
        "nodesTried": sum(outcome.nodes for outcome in outcomes),
        "mode": strategy.value,
        "parallel": 1,
        "gomaxprocs": 1,
        "heapSysMiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }


def percentile(ordered: list[float], part: float) -> float:
    """Return a percentile the way the peer takes it: no value between two."""
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)] if ordered else 0.0


@contextmanager
def _quiet_collector() -> Iterator[None]:
    """Take what was loaded out of the garbage collector's sight, as the operator does after its first sweep."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


if __name__ == "__main__":
    typer.run(main)
