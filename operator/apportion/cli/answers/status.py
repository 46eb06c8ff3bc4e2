"""`apportion status`: the cluster as a map of its cards.

In: a cluster, live or from a file. Out: for each card of each node its slices, who holds them, the largest partition that fits and how
scattered the free slices are; how many claims are served and wait. Exit status: 0 shown, 1 there are no cards, 2 bad input.
"""

from collections import Counter
from dataclasses import asdict

import typer
from rich.console import Console
from rich.table import Table

from apportion.cli.answers.cards import Card, cards
from apportion.cli.answers.counts import counts_of
from apportion.cli.answers.output import NOT_SERVED, Output, require_format, say, show, table
from apportion.cli.world.options import (
    AddNodes,
    Context,
    Drivers,
    File,
    Kubeconfig,
    Schedulers,
    Source,
    WithoutNode,
    open_world,
)
from apportion.scheduling.demands.waitingqueue import waiting_demands

_WIDEST = 10_000
"""Columns that no terminal has."""


def status(
    world: File = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Output = "table",
    without_node: WithoutNode = None,
    add_nodes: AddNodes = None,
    schedulers: Schedulers = None,
    drivers: Drivers = None,
) -> None:
    """Show nodes, their cards as slices, who holds what, and what still fits."""
    require_format(output)
    opened = open_world(
        Source(world, kubeconfig, without_node, add_nodes, schedulers, drivers, context=context)
    )
    snapshot = opened.snapshot
    snapshot.state.settle()
    found = [*cards(snapshot, opened.holds)]
    counts = counts_of(snapshot, *waiting_demands(snapshot))
    plain = {
        "claims": counts,
        "cards": [asdict(each) | {"device": str(each.device)} for each in found],
    }
    names = dict.fromkeys(each.node for each in found)
    show(output, plain, names, lambda console: draw(console, found, counts))
    if not found:
        raise typer.Exit(NOT_SERVED)


def draw(console: Console, found: list[Card], counts: dict[str, int]) -> None:
    """Write the map, and how many claims are served and wait."""
    made = _table(found, ", ")
    if console.measure(made, options=console.options.update(max_width=_WIDEST)).maximum > console.width:
        made = _table(found, "\n")
    console.print(made)
    models = Counter(each.model for each in found)
    what = ", ".join(f"{count} {model}" for model, count in sorted(models.items())) or "no cards"
    say(
        console,
        f"{what}; claims: {counts['served']} served, {counts['waiting']} waiting,"
        f" {counts['unservable']} that nobody serves as they are",
    )


def _table(found: list[Card], between: str) -> Table:
    """Return the map; `between` stands between two holders of a card."""
    rows = [
        (
            each.node or "-",
            each.device.name + (" (tainted)" if each.tainted else ""),
            f"[{each.slices}]",
            each.largest or "-",
            "-" if each.fragmentation is None else f"{each.fragmentation:.0%}",
            between.join(f"{letter}={claim}" for letter, claim in each.holders.items()) or "-",
        )
        for each in found
    ]
    return table(("node", "card", "slices", "fits", "scattered", "held by"), rows, ("scattered",))
