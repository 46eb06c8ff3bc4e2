"""The table of a crowd: figures in, a rich table out, with a column for each part of the run."""

from rich.table import Table

from bench.crowd.figures import Figures
from bench.h100node import CARDS
from bench.span import ROWS

_TITLES = {"before": "alone", "making": "while the crowd comes", "during": "beside the crowd"}


def table(found: Figures) -> Table:
    """Return the table of one run."""
    plan = found.plan
    quotas = "a quota each" if plan.quotas else "no quotas"
    shown = Table(
        title=f"{plan.workload.rate:g} pods/s beside {plan.waiting:,} pods of {plan.tenants} tenants ({quotas}) on {plan.crowded} nodes x 8 H100"
    )
    shown.add_column("", no_wrap=True)
    for name, _ in found.spans:
        shown.add_column(_TITLES[name], justify="right", no_wrap=True)
    for name, cell in ROWS:
        shown.add_row(name, *(cell(span) for _, span in found.spans))
    shown.add_section()
    shown.add_row("the crowd: served / waiting at the end", "", "", f"{found.served:,} / {found.waiting:,}")
    shown.add_row("its GPUs in use, on average", "", "", f"{found.gpus:,.0f} of {plan.crowded * CARDS:,}")
    return shown
