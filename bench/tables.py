"""Tables for the terminal: rows of figures in, rich tables out."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from bench.compare import Row, Verdict

SLOW_MS = 100
"""Milliseconds beyond which an adversarial file is marked as slow."""


def table(rows: Sequence[Row], title: str) -> Table:
    """Return a table of ours, the peer and their ratio for every scenario."""
    found = Table(title=title)
    found.add_column("scenario", no_wrap=True)
    for name in ("claims", "claims/s", "a CPU s", "p99 ms", "p99 CPU", "max ms", "max CPU", "unplaced"):
        found.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        found.add_row(row.scenario, *_cells(row, row.ours))
        if row.peer:
            found.add_row("  peer", *_cells(row, row.peer))
            p99, most = _ratio(row, "p99Ms"), _ratio(row, "maxMs")
            ratios = (f"{row.ratio:.1f}", f"{row.cpu_ratio:.1f}", f"{p99:.3f}", "", f"{most:.3f}", "")
            found.add_row("  [bold]ratio[/]", "", *(f"[bold]{ratio}[/]" for ratio in ratios), "")
        found.add_section()
    return found


def _cells(row: Row, runs: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        f"{row.of(runs, 'claims'):,.0f}",
        f"{row.of(runs, 'claimsPerSecond'):,.0f}",
        f"{row.cpu_rate(runs):,.0f}",
        f"{row.of(runs, 'p99Ms'):.2f}",
        f"{row.of(runs, 'p99CpuMs'):.2f}" if "p99CpuMs" in runs[0] else "",
        f"{row.of(runs, 'maxMs'):.1f}",
        f"{row.of(runs, 'maxCpuMs'):.1f}" if "maxCpuMs" in runs[0] else "",
        f"{row.of(runs, 'unallocated'):.0f}",
    ]


def _ratio(row: Row, key: str) -> float:
    return row.of(row.ours, key) / max(row.of(row.peer, key), 1e-9)


def adversarial_table(verdicts: Sequence[Verdict]) -> Table:
    """Return a table of adversarial files: right and fast ones in one line, the others by name."""
    found = Table(title="adversarial files, ours")
    for name in ("file", "verdict", "ms"):
        found.add_column(name, justify="right" if name == "ms" else "left")
    good = [one for one in verdicts if one.right and one.ms <= SLOW_MS]
    if good:
        worst = max(one.ms for one in good)
        found.add_row(f"{len(good)} of {len(verdicts)} files", "right", f"at most {worst:.1f}")
    for one in verdicts:
        if one not in good:
            colour = "yellow" if one.right else "red"
            word = "right, but slow" if one.right else "WRONG"
            found.add_row(
                f"[{colour}]{one.scenario}[/]", f"[{colour}]{word}[/]", f"[{colour}]{one.ms:.1f}[/]"
            )
    return found
