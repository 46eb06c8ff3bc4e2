"""The table of a storm: figures in, a rich table out, with a column for the time before and one for the time since."""

from collections.abc import Callable

from rich.table import Table

from bench.endtoend.figures import Durations
from bench.poison.figures import Figures, Span

_ROWS: tuple[tuple[str, Callable[[Span], str]], ...] = (
    ("pods created", lambda span: f"{len(span.created):,}"),
    ("allocated", lambda span: f"{span.count(span.timeline.allocated):,}"),
    ("bound", lambda span: f"{span.count(span.timeline.bound):,}"),
    ("created to allocated p50 / p99 / max, ms", lambda span: _durations(span.to_allocated)),
    ("claim seen to allocated p50 / p99 / max, ms", lambda span: _durations(span.claimed_to_allocated)),
    ("created to bound p50 / p99 / max, ms", lambda span: _durations(span.to_bound)),
    ("passes", lambda span: f"{span.passes.count:,}"),
    ("pass mean / at most, ms", lambda span: f"{span.passes.mean_ms:.1f} / {_longest(span)}"),
    ("operator, CPU s", lambda span: f"{span.cpu:.1f} in {span.done.at - span.begun.at:.0f} s"),
)


def table(found: Figures) -> Table:
    """Return the table of one run."""
    work = found.plan.workload
    shown = Table(title=f"{work.nodes} nodes x 8 H100, {work.rate:g} pods/s for {work.stay:g} s each")
    shown.add_column("", no_wrap=True)
    shown.add_column("before the storm", justify="right", no_wrap=True)
    shown.add_column("since", justify="right", no_wrap=True)
    for name, cell in _ROWS:
        shown.add_row(name, cell(found.before), cell(found.during))
    shown.add_section()
    for poison in found.plan.storm.poisons:
        shown.add_row(f"{poison}: objects made", "", f"{found.made.get(poison, 0):,}")
    shown.add_section()
    for name, value in (
        ("attacks on finalizers refused", f"{found.refused:,} of {found.attacks:,}"),
        ("lease lost", f"{found.lost:,}"),
        ("operator started", f"{found.starts:,}"),
        ("overlaps at most", f"{found.overlaps:,}"),
        ("Events by the operator", f"{found.events:,}"),
    ):
        shown.add_row(name, "", value)
    return shown


def _longest(span: Span) -> str:
    return f"{span.passes.longest_ms:,.0f}"


def _durations(found: Durations) -> str:
    return f"{found.p50:,.0f} / {found.p99:,.0f} / {found.longest:,.0f}"
