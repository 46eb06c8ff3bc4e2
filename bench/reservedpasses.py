"""What reservations and quotas cost the pass after a pod's end (`python -m bench.cycle --reservations`).

In: the number of nodes. Out: a table of CPU milliseconds without and with, by where the pod was: on a node that is reserved for one of the
first of the queue, of which the start is known or is not, or on another one.
"""

import asyncio
import gc
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog
from rich.table import Table

from apportion.errors import BrokenInput
from bench.fullcluster import HEADS, WAITING, FullCluster
from bench.generator import SIZES

PASSES = 21
"""Timed passes of each case, without and with."""


@dataclass(frozen=True, slots=True)
class _Case:
    """Where the pod was that ended, and the CPU milliseconds of the passes after it."""

    name: str
    nodes: Callable[[FullCluster], list[str]]
    without: list[float] = field(default_factory=list)
    having: list[float] = field(default_factory=list)


def compare(size: str, *, quotas: bool) -> Table:
    """Return the table for a cluster of this size; raises BrokenInput. `quotas`: there are quotas where there are reservations."""
    nodes = SIZES.get(size) or (int(size) if size.isdigit() else 0)
    if nodes < 2 * HEADS:
        raise BrokenInput(
            f"expected {', '.join(SIZES)}, or at least {2 * HEADS} nodes", field=f"--size {size}"
        )
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    cases = asyncio.run(_timed(nodes, quotas=quotas))
    table = Table(
        title=f"the pass after a pod's end: {nodes} full nodes, {WAITING} demands waiting, CPU ms, median of {PASSES}"
    )
    for name in ("it was on", "without", "with", "ratio", "longest without", "longest with"):
        table.add_column(name, justify="right")
    for case in cases:
        without, having = statistics.median(case.without), statistics.median(case.having)
        longest = max(case.without), max(case.having)
        table.add_row(
            case.name,
            f"{without:.1f}",
            f"{having:.1f}",
            f"{having / without:.2f}",
            *(f"{each:.1f}" for each in longest),
        )
    return table


async def _timed(nodes: int, *, quotas: bool) -> list[_Case]:
    without, having = (
        FullCluster(nodes, reserved=number, quotas=quotas and number > 0) for number in (0, HEADS)
    )
    cases = [
        _Case("a reserved node, start known", lambda made: made.reserved_nodes(known=True)),
        _Case("a reserved node, start not known", lambda made: made.reserved_nodes(known=False)),
        _Case("another node", _others),
    ]
    gc.collect()
    gc.freeze()
    for number in range(PASSES):
        for case in cases:
            there = case.nodes(having)
            node = there[number * 7 % len(there)]
            # In turns, so that what disturbs the machine disturbs both.
            case.without.append(without.after_end(node))
            case.having.append(having.after_end(node))
    return cases


def _others(made: FullCluster) -> list[str]:
    reserved = {*made.reserved_nodes(known=True), *made.reserved_nodes(known=False)}
    return sorted(made.running.keys() - reserved)
