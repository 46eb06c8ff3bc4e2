"""The figures of a soak as a table for people.

In: a `SoakResult`. Out: a table: load, what was killed and restarted, faults by kind, what was found.
"""

from collections.abc import Mapping

from rich.table import Table

from testbed.faultyproxy import Fault
from testbed.soak.result import SoakResult


def figures(result: SoakResult) -> Table:
    """Return every figure of a run."""
    minutes = f"{result.loaded / 60:.1f} minutes of load, everything free {result.settled:.0f} s later"
    table = Table(title=f"Soak, seed {result.seed}: {minutes}", title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    sections: dict[str, Mapping[str, int]] = {
        "Load": {
            "pods made": result.pods,
            "pods that ran": result.served,
            "pods deleted by force": result.forced,
            "allocations of devices": result.allocations,
            "longest time without one, in seconds": round(result.idle),
        },
        "Killed, stopped, restarted": dict(sorted(result.disturbances.items())),
        "Faults of the API server": {
            f"{name}: {Fault[name]}": count for name, count in sorted(result.faults.items())
        },
        "Found": {
            "overlaps, at any moment": len(result.overlaps),
            "other violations, at any moment": len(result.violations) - len(result.overlaps),
            "left, or not to be had, at the end": len(result.left),
            "defects in logs, and crashes": len(result.complaints),
            "processes whose memory grew": len(result.leaks),
        },
    }
    for name, rows in sections.items():
        table.add_section()
        table.add_row(f"[bold]{name}[/bold]", "")
        for text, count in rows.items():
            table.add_row(f"  {text}", str(count))
    return table
