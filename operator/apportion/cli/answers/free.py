"""`apportion free`: what is left, by model.

In: a cluster, live or from a file. Out: for each model how many whole devices are left, and how many partitions of each profile there
could be at most, each kind by itself. Exit status: 0 something is left, 1 nothing is, 2 bad input.
"""

import typer
from rich.console import Console

from apportion.cli.answers.largest import DeviceKind, Left
from apportion.cli.answers.left import left_of
from apportion.cli.answers.output import NOT_SERVED, Output, require_format, say, show, table
from apportion.cli.world.holds import Holds, said
from apportion.cli.world.options import (
    AddNodes,
    Context,
    Drivers,
    File,
    Kubeconfig,
    Source,
    WithoutNode,
    open_world,
)

MOST_HOLDS = 8
"""DeviceHolds that are named."""


def free(
    world: File = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Output = "table",
    without_node: WithoutNode = None,
    add_nodes: AddNodes = None,
    drivers: Drivers = None,
) -> None:
    """Show how many devices of each model and profile are left."""
    require_format(output)
    opened = open_world(Source(world, kubeconfig, without_node, add_nodes, drivers=drivers, context=context))
    found, holds = left_of(opened.snapshot, opened.holds), opened.holds
    rows = [
        {
            "driver": kind.driver,
            "model": kind.model,
            "device": kind.name,
            "left": left.left,
            "held": left.held,
            "of": left.most,
            "exact": left.exact,
            "nodes": left.nodes,
        }
        for kind, left in found.items()
    ]
    names = (f"{kind.model}/{kind.name}" for kind, left in found.items() if left.left)
    named = [{"name": name, "message": said(each)} for name, each in sorted(holds.found.items())]
    show(output, {"devices": rows, "holds": named}, names, lambda console: draw(console, found, holds))
    if not any(left.left for left in found.values()):
        raise typer.Exit(NOT_SERVED)


def draw(console: Console, found: dict[DeviceKind, Left], holds: Holds) -> None:
    """Write what is left of each kind of device, and what is held beside allocations."""
    if not found:
        say(console, "no slice publishes a device")
        return
    rows = [
        (
            kind.model if kind.model != "-" else kind.driver,
            kind.name,
            f"{'' if left.exact else '>='}{left.left}",
            *((left.held,) if holds.found else ()),
            left.most,
            len(left.nodes),
        )
        for kind, left in found.items()
    ]
    numbers = ("left", *(("held",) if holds.found else ()), "of", "nodes")
    console.print(table(("model", "device", *numbers), rows, numbers))
    say(console, "Each row by itself: whole devices and partitions of one card share it.")
    draw_holds(console, holds)


def draw_holds(console: Console, holds: Holds) -> None:
    """Write what is held beside allocations, and for whom."""
    for name in sorted(holds.found)[:MOST_HOLDS]:
        say(console, said(holds.found[name]))
    if len(holds.found) > MOST_HOLDS:
        say(console, f"and {len(holds.found) - MOST_HOLDS} more: kubectl get deviceholds")
