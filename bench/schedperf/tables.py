"""Tables of upstream's workloads: runs in, ratios out; and what is not run, with its reason."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from bench.schedperf.cases import Workload
from bench.schedperf.program import Mode
from bench.schedperf.results import Result


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one workload."""

    workload: Workload
    mode: Mode
    result: Result | None
    """None: it failed."""
    failed: str = ""

    def to_json(self) -> Mapping[str, Any]:
        """Return the JSON line."""
        figures = self.result.to_json() if self.result is not None else {"failed": self.failed}
        return {
            "bench": "schedperf",
            "case": self.workload.case,
            "workload": self.workload.name,
            "who": str(self.mode),
            "allocator": self.workload.allocator,
            **figures,
        }


def table(runs: Sequence[Run]) -> Table:
    """Return a row for each run, and the ratio of the medians for each workload."""
    found = Table(title="scheduler_perf, upstream's workloads")
    found.add_column("workload", no_wrap=True)
    found.add_column("who", no_wrap=True)
    for name in ("pods/s, average", "p50", "pods", "CPU ms a pod", "test / operator", "load"):
        found.add_column(name, justify="right")
    for title in dict.fromkeys(run.workload.title for run in runs):
        mine = [run for run in runs if run.workload.title == title]
        for run in mine:
            found.add_row(title, str(run.mode), *_cells(run))
        rates = _ratio(mine, "average"), _ratio(mine, "cpu_ms_per_pod")
        if rates[0] is not None and rates[1] is not None:
            found.add_row("  [bold]ratio[/]", "", f"[bold]{rates[0]:.2f}[/]", "", "", f"{rates[1]:.2f}")
        found.add_section()
    return found


def listing(workloads: Sequence[Workload]) -> Table:
    """Return a row for each workload: whether the operator serves it, and if not, why."""
    found = Table(title="workloads")
    for name in ("suite", "workload", "served"):
        found.add_column(name, overflow="fold")
    for each in workloads:
        reason = each.broken or each.unserved
        found.add_row(each.suite, each.title, f"[yellow]no:[/] {reason}" if reason else "yes")
    return found


def _cells(run: Run) -> tuple[str, ...]:
    one = run.result
    if one is None:
        return (f"[red]failed: {run.failed.splitlines()[-1] if run.failed else ''}[/]",)
    spent = [1000 * one.cpu.get(name, 0.0) / max(one.pods, 1) for name in ("test", "operator")]
    return (
        f"{one.average:.1f}" if one.throughput else f"too short: {one.duration:.1f} s",
        f"{one.throughput.get('Perc50', 0.0):.1f}" if one.throughput else "",
        f"{one.pods:,}" if one.pods else "",
        f"{one.cpu_ms_per_pod:.1f}" if one.pods else "",
        " / ".join(f"{value:.1f}" for value in spent) if one.pods else "",
        f"{one.load[0]:.1f} - {one.load[1]:.1f}",
    )


def _ratio(runs: Sequence[Run], figure: str) -> float | None:
    """Return ours by kube-scheduler's, medians; None unless both have the figure."""
    values: dict[bool, list[float]] = {True: [], False: []}
    for run in runs:
        if run.result is not None and run.result.pods:
            values[run.mode is Mode.KUBE_SCHEDULER].append(getattr(run.result, figure))
    if not values[True] or not values[False]:
        return None
    theirs = statistics.median(values[True])
    return statistics.median(values[False]) / theirs if theirs else None
