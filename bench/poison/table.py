"""The table of a storm: figures in, a rich table out, a row for each time."""

from rich.table import Table

from bench.endtoend.figures import Durations
from bench.poison.figures import Figures


def table(found: Figures) -> Table:
    """Return the table of one run."""
    plan = found.plan
    work = plan.workload
    title = f"{work.nodes} nodes x 8 H100, {work.rate:g} pods/s for {work.stay:g} s each; {', '.join(plan.storm.poisons)}"
    shown = Table(title=title)
    shown.add_column("", no_wrap=True)
    for name in (
        *(
            "created",
            "allocated",
            "bound",
            "to allocated p50 / p99 / max, ms",
            "to bound p50 / p99 / max, ms",
        ),
        *("passes", "mean, ms", "at most, ms", "CPU s"),
    ):
        shown.add_column(name, justify="right")
    for name, span in (("before", found.before), ("during", found.during)):
        passes = span.passes
        longest = passes.longest_ms
        shown.add_row(
            name,
            f"{len(span.created):,}",
            f"{span.count(span.timeline.allocated):,}",
            f"{span.count(span.timeline.bound):,}",
            _durations(span.to_allocated),
            _durations(span.to_bound),
            f"{passes.count:,}",
            f"{passes.mean_ms:.1f}",
            "more" if longest is None else f"{longest:g}",
            f"{span.cpu:.1f}",
        )
    made = ", ".join(f"{poison} {found.made.get(poison, 0):,}" for poison in plan.storm.poisons)
    shown.caption = (
        f"made: {made}; lease lost {found.lost} times, operator started {found.starts} times, {found.events:,} Events, "
        f"at most {found.overlaps} overlaps; {found.refused:,} of {found.attacks:,} attacks on finalizers refused"
    )
    return shown


def _durations(found: Durations) -> str:
    return f"{found.p50:,.0f} / {found.p99:,.0f} / {found.longest:,.0f}"
