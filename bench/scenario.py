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
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import orjson
import typer

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.nodeoutcomes import precompute
from apportion.allocator.queue import Answer
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from apportion.collector import Collector
from apportion.dra.allocation import Allocation
from apportion.dra.claim import Claim
from apportion.dra.deviceclass import DeviceClass
from apportion.dra.slice import Slice
from apportion.errors import BrokenInput
from bench.deadline import Expired, deadline, seconds
from bench.waiting import Spent, last, plan

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


class Outcome(NamedTuple):
    """What became of one claim."""

    claim: str
    status: str
    """allocated, unallocated, timeout or error."""
    ms: float
    """From the claim object to its Allocation, with hold(); written as JSON later, as by the peer."""
    nodes: int
    """Nodes that could be asked."""
    node: str = ""
    error: str = ""
    result: Allocation | None = None
    cpu_ms: float = 0.0
    """The same in CPU time, where it was measured: another program's turns do not count."""

    def to_json(self) -> dict[str, Any]:
        """Return the peer's line for one claim."""
        line: dict[str, Any] = {"claim": self.claim, "status": self.status}
        if self.node:
            line["node"] = self.node
        line |= {"ms": self.ms, "nodesTried": self.nodes}
        if self.error:
            line["error"] = self.error
        if self.result is not None:
            line["result"] = self.result.to_json()
        return line


def main(
    file: Annotated[Path, typer.Argument(help="The scenario, .json or .json.gz.")],
    strategy: Annotated[
        Strategy, typer.Option(help="How to choose among places that would all do.")
    ] = Strategy.LEAST_FRAGMENTATION,
    out: Annotated[Path | None, typer.Option(help="Write one JSON line per claim to this file.")] = None,
    timeout: Annotated[str, typer.Option(help="Limit per claim, such as 10s or 500ms; 0: none.")] = "0",
    most: Annotated[int, typer.Option("--limit", help="Claims handled at most; 0: all.")] = 0,
    ticks: Annotated[bool, typer.Option("--ticks", help="Tell the CPU time of every claim too.")] = False,  # noqa: FBT002
    waiting: Annotated[  # noqa: FBT002
        bool,
        typer.Option(
            "--waiting/--one-by-one",
            help="Claims between two releases wait together, and the last of them are placed together, as by the "
            "operator; or each claim as if no other waited, as by the peer.",
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
        typer.echo(f"error: {file}: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from None
    if out is not None:
        lines = (orjson.dumps(outcome.to_json()) for outcome in outcomes)
        out.write_bytes(b"".join(line + b"\n" for line in lines))
    sys.stdout.write(orjson.dumps(figures | {"loadSeconds": load_seconds}).decode() + "\n")


def read(path: Path) -> dict[str, Any]:
    """Return what a scenario file says, plain or gzipped; raises BrokenInput."""
    try:
        raw = path.read_bytes()
        if raw.startswith(b"\x1f\x8b"):
            raw = gzip.decompress(raw)
        world: dict[str, Any] = orjson.loads(raw)
    except OSError as error:
        raise BrokenInput(str(error.strerror)) from None
    except orjson.JSONDecodeError as error:
        raise BrokenInput(f"not JSON: {error}") from None
    return world


def load(path: Path) -> Scenario:
    """Read a scenario into the allocator's state; raises BrokenInput."""
    return made(read(path))


def made(world: Mapping[str, Any]) -> Scenario:
    """Let the allocator take in what a scenario says; raises BrokenInput."""
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


def run(
    scenario: Scenario,
    strategy: Strategy,
    limit: float = 0,
    most: int = 0,
    *,
    ticks: bool = False,
    waiting: bool = True,
) -> tuple[list[Outcome], dict[str, Any]]:
    """Let the claims come and go; return what became of each, and the peer's figures.

    `limit`: seconds per claim, `most`: claims in all; 0: none. `ticks`: tell the CPU time of every claim too. `waiting`:
    claims between two releases wait together, unless each has a limit; the time that it takes to place the last of them
    is the first one's.
    """
    outcomes: list[Outcome] = []
    together = waiting and not limit
    lasts = (
        last(event.claim if event.op != "release" else "" for event in scenario.events) if together else {}
    )
    planned: Mapping[str, Answer] = {}
    held: set[str] = set()
    released = 0
    with _quiet_collector():
        cpu, began = time.process_time(), time.perf_counter()
        for event in scenario.events:
            if event.op == "release":
                if event.claim in held:
                    scenario.state.release(event.claim)
                    # The operator does this as soon as it has seen the event.
                    scenario.state.settle()
                    held.discard(event.claim)
                    released += 1
                continue
            if most and len(outcomes) == most:
                break
            # The operator does this after every pass that leaves nobody waiting.
            precompute(scenario.state)
            spent = Spent()
            if event.claim in lasts:
                claims = [scenario.claims[name] for name in lasts[event.claim]]
                planned, spent = plan(scenario.state, claims, strategy)
            claim = scenario.claims[event.claim]
            outcome = serve(scenario, claim, strategy, limit, planned.get(claim.name), ticks=ticks)
            outcome = outcome._replace(ms=outcome.ms + spent.ms, cpu_ms=outcome.cpu_ms + spent.cpu_ms)
            if outcome.status == "allocated":
                held.add(event.claim)
            outcomes.append(outcome)
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
    return outcomes, _figures(scenario, strategy, outcomes, released) | {
        "seconds": took,
        "cpuSeconds": cpu,
        "claimsPerSecond": len(outcomes) / took if took else 0.0,
        **(_ticks(outcomes) if ticks else {}),
    }


def serve(
    scenario: Scenario,
    claim: Claim,
    strategy: Strategy,
    limit: float = 0,
    planned: Answer | None = None,
    *,
    ticks: bool = False,
) -> Outcome:
    """Allocate one claim, let the state learn of it and hold its devices. `planned`: its answer, if there is one."""
    state, status, error = scenario.state, "unallocated", ""
    found = planned
    result = None
    # The system call that tells CPU time costs a tenth of a claim, so it is made on demand.
    cpu, began = time.thread_time() if ticks else 0.0, time.perf_counter()
    try:
        if found is None:
            # The generator of a context that does nothing costs a thirtieth of a claim.
            with deadline(limit) if limit else nullcontext():
                found = allocate(state, Demand((claim,)), Terms(strategy))
        if found.asked is not None:
            state.learn(found.asked)
        if isinstance(found, Decision):
            status = "allocated"
            result = found.allocations[0]
            state.hold(claim.name, found.allocations[0].results)
    except Expired:
        status = "timeout"
    except BrokenInput as broken:
        status, error = "error", str(broken)
    ms = (time.perf_counter() - began) * 1000
    cpu = (time.thread_time() - cpu) * 1000 if ticks else 0.0
    node = found.node if isinstance(found, Decision) else ""
    return Outcome(claim.name, status, ms, scenario.nodes, node, error, result, cpu)


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
        "notReached": sum(event.op != "release" for event in scenario.events) - len(outcomes),
        "p50Ms": percentile(times, 0.5),
        "p99Ms": percentile(times, 0.99),
        "maxMs": percentile(times, 1),
        "nodesTried": sum(outcome.nodes for outcome in outcomes),
        "mode": strategy.value,
        "parallel": 1,
        "gomaxprocs": 1,
        "heapSysMiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }


def _ticks(outcomes: list[Outcome]) -> dict[str, float]:
    times = sorted(outcome.cpu_ms for outcome in outcomes)
    return {"p99CpuMs": percentile(times, 0.99), "maxCpuMs": percentile(times, 1)}


def percentile(ordered: list[float], part: float) -> float:
    """Return a percentile the way the peer takes it: no value between two."""
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)] if ordered else 0.0


@contextmanager
def _quiet_collector() -> Iterator[None]:
    """Tell the garbage collector when to work, as the operator does once it has seen everything."""
    former = gc.get_threshold()
    Collector().take_over(time.monotonic())
    try:
        yield
    finally:
        gc.set_threshold(*former)
        gc.unfreeze()


if __name__ == "__main__":
    typer.run(main)
