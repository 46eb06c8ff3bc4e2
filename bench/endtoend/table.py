"""The table of several runs: figures in, a rich table out. The last row has the ratio of ours to kube-scheduler's."""

import statistics
from collections.abc import Callable, Sequence

from rich.table import Table

from bench.endtoend.cluster import OPERATOR
from bench.endtoend.figures import Figures
from bench.endtoend.workload import Who
from testbed.components import APISERVER, CONTROLLER_MANAGER, ETCD, SCHEDULER

_PROCESSES = (OPERATOR, SCHEDULER, APISERVER, CONTROLLER_MANAGER, ETCD)
_COLUMNS: tuple[tuple[str, Callable[[Figures], str]], ...] = (
    ("bound", lambda one: f"{one.bound:,} of {one.workload.pods:,}"),
    ("pods/s", lambda one: f"{one.bound_per_second:.1f}"),
    ("to allocated p50 / p99, ms", lambda one: f"{one.to_allocated.p50:,.0f} / {one.to_allocated.p99:,.0f}"),
    ("to bound p50 / p99, ms", lambda one: f"{one.to_bound.p50:,.0f} / {one.to_bound.p99:,.0f}"),
    ("CPU, ms a pod", lambda one: " / ".join(f"{one.cpu_per_pod(name):.1f}" for name in _PROCESSES)),
    (
        "requests a pod",
        lambda one: " / ".join(f"{one.requests_per_pod(name):.1f}" for name in (OPERATOR, SCHEDULER)),
    ),
)


def table(runs: Sequence[Figures]) -> Table:
    """Return the table of runs of one workload."""
    work = runs[0].workload
    pace = f"{work.rate:g} pods/s" if work.rate else "all at once"
    found = Table(title=f"{work.nodes} nodes x 8 H100, {work.pods} pods, one {work.devices} each, {pace}")
    found.add_column("who", no_wrap=True)
    for name, _ in _COLUMNS:
        found.add_column(name, justify="right", no_wrap=name.startswith("CPU"))
    for one in runs:
        found.add_row(str(one.who), *(cell(one) for _, cell in _COLUMNS))
    found.caption = f"CPU: {', '.join(_PROCESSES)}; requests: {OPERATOR}, {SCHEDULER}"
    ratio = pods_ratio(runs)
    if ratio is not None:
        found.add_section()
        found.add_row("[bold]ratio[/]", "", f"[bold]{ratio:.1f}[/]")
    return found


def pods_ratio(runs: Sequence[Figures]) -> float | None:
    """Return our bound pods per second by kube-scheduler's, medians; None unless both ran and bound pods."""
    rates = {who: [one.bound_per_second for one in runs if one.who is who] for who in Who}
    if not all(rates.values()):
        return None
    theirs = statistics.median(rates[Who.KUBE_SCHEDULER])
    return statistics.median(rates[Who.OURS]) / theirs if theirs else None
