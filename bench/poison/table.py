"""The table of a storm: figures in, a rich table out, with a column for the time before and one for the time since."""

from rich.table import Table

from bench.poison.figures import Figures
from bench.span import ROWS


def table(found: Figures) -> Table:
    """Return the table of one run."""
    work = found.plan.workload
    shown = Table(title=f"{work.nodes} nodes x 8 H100, {work.rate:g} pods/s for {work.stay:g} s each")
    shown.add_column("", no_wrap=True)
    shown.add_column("before the storm", justify="right", no_wrap=True)
    shown.add_column("since", justify="right", no_wrap=True)
    for name, cell in ROWS:
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
