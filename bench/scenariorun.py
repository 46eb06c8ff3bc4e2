"""Run a scenario through the allocator and measure it, with the keys of the Go peer's figures.

In: a Scenario. Out: an Outcome per claim and a dictionary of figures. Timed is the allocator alone,
on one thread: from Claim objects to Allocation objects that the state holds. Reading and decoding
files, the API server, watches, pods, partitions and the text of refusals are not part of it.
"""

import resource
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.nodeoutcomes import precompute
from apportion.allocator.queue import Answer
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.terms import Terms
from apportion.collector import Collector
from apportion.dra.allocation import Allocation
from apportion.dra.claim import Claim
from apportion.errors import BrokenInput
from bench.deadline import Expired, deadline
from bench.queued import Spent, plan, planned_together
from bench.scenariofile import Scenario


class Outcome(NamedTuple):
    """The verdict on one claim."""

    claim: str
    status: str
    """allocated, unallocated, timeout or error."""
    ms: float
    """From the Claim object to an Allocation held by the state; its JSON is made later, as by the peer."""
    nodes: int
    """Nodes of the cluster, all of them candidates."""
    node: str = ""
    error: str = ""
    result: Allocation | None = None
    cpu_ms: float = 0.0
    """The same in CPU time; 0 unless it was measured."""

    def to_json(self) -> dict[str, Any]:
        """Return the line for one claim, with the peer's keys."""
        line: dict[str, Any] = {"claim": self.claim, "status": self.status}
        if self.node:
            line["node"] = self.node
        line |= {"ms": self.ms, "nodesTried": self.nodes}
        if self.error:
            line["error"] = self.error
        if self.result is not None:
            line["result"] = self.result.to_json()
        return line


def run(
    scenario: Scenario,
    strategy: Strategy,
    limit: float = 0,
    most: int = 0,
    *,
    ticks: bool = False,
    waiting: bool = True,
) -> tuple[list[Outcome], dict[str, Any]]:
    """Play the events of a scenario; return the outcome of each claim, and figures with the peer's keys.

    `limit`: seconds per claim, `most`: number of claims; 0: no limit. `ticks`: measure the CPU time of every claim too.
    `waiting`: claims between two releases wait together and the last of them are planned together, unless `limit` is
    set; the time of that plan is charged to the first of them.

    `seconds` and `cpuSeconds` cover the whole loop: claims, plans, releases and outcomes computed in advance. The time
    of a claim leaves out releases and what is computed in advance.
    """
    outcomes: list[Outcome] = []
    planned_by_first = (
        planned_together(event.claim if event.op != "release" else "" for event in scenario.events)
        if waiting and not limit
        else {}
    )
    planned: Mapping[str, Answer] = {}
    terms = Terms(strategy)
    held: set[str] = set()
    released = 0
    with operators_collector():
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
            # The operator does this after each pass in which no pod waits. Not in the time of the claim, but in that of the run.
            for _ in precompute(scenario.state):
                pass
            spent = Spent()
            if event.claim in planned_by_first:
                claims = [scenario.claims[name] for name in planned_by_first[event.claim]]
                planned, spent = plan(scenario.state, claims, strategy)
            claim = scenario.claims[event.claim]
            outcome = allocate_one(scenario, claim, terms, limit, planned.get(claim.name), ticks=ticks)
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


def allocate_one(
    scenario: Scenario,
    claim: Claim,
    terms: Terms,
    limit: float = 0,
    planned: Answer | None = None,
    *,
    ticks: bool = False,
) -> Outcome:
    """Allocate one claim, record its query as demand, hold its devices. `planned`: the answer of a plan, if there is one."""
    state, status, error = scenario.state, "unallocated", ""
    found = planned
    result = None
    # The system call for CPU time takes a tenth of a claim's time, so it is made on demand.
    cpu, began = time.thread_time() if ticks else 0.0, time.perf_counter()
    try:
        if found is None:
            # A generator-based context that does nothing takes a thirtieth of a claim's time.
            with deadline(limit) if limit else nullcontext():
                found = allocate(state, Demand((claim,)), terms)
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


def percentile(ordered: list[float], fraction: float) -> float:
    """Return a percentile as the peer does, without interpolation."""
    return ordered[min(int(fraction * len(ordered)), len(ordered) - 1)] if ordered else 0.0


@contextmanager
def operators_collector() -> Iterator[None]:
    """Schedule the garbage collector as the operator does once it has loaded everything; as it was, afterwards."""
    collector = Collector()
    collector.take_over(time.monotonic())
    try:
        yield
    finally:
        collector.end()
