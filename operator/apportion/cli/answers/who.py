"""`apportion who`: who holds the devices of a node, or one device.

In: the name of a node or device; a cluster, live or from a file. Out: device, claim and pods. A card has those who have parts of it, too.
Exit status: 0 somebody holds something, 1 nobody does, or there is no such node or device, 2 bad input.
"""

from typing import Annotated

import typer
from rich.console import Console

from apportion.api.meant import meant
from apportion.cli.answers.holders import Holder, holders_of
from apportion.cli.answers.output import NOT_SERVED, Output, require_format, say, show, table
from apportion.cli.world.options import Context, Drivers, File, Kubeconfig, Source, open_world


def who(
    name: Annotated[
        str,
        typer.Argument(
            help="A node, or a device: DEVICE, POOL/DEVICE or DRIVER/POOL/DEVICE (a pool is called as its node)."
        ),
    ],
    world: File = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Output = "table",
    drivers: Drivers = None,
) -> None:
    """Say who holds the devices of a node, or a device and its parts."""
    require_format(output)
    opened = open_world(Source(world, kubeconfig, drivers=drivers, context=context))
    snapshot, found = opened.snapshot, holders_of(opened.snapshot, opened.holds, name)
    if found is None:
        names = [node.name for node in snapshot.nodes.values()]
        names += dict.fromkeys(device.name for piece in snapshot.slices.values() for device in piece.devices)
        typer.echo(f"error: there is no node or device {name}{meant(name, names)}", err=True)
        raise typer.Exit(NOT_SERVED)
    claims = dict.fromkeys(each.claim for each in found)
    show(
        output,
        {"holders": [each.to_json() for each in found]},
        claims,
        lambda console: _draw(console, name, found),
    )
    if not found:
        raise typer.Exit(NOT_SERVED)


def _draw(console: Console, name: str, found: list[Holder]) -> None:
    if not found:
        say(console, f"{name}: nobody holds anything there")
        return
    noted = any(each.consumed or each.note for each in found)
    rows = [
        [
            each.node or "-",
            each.device.name,
            each.claim,
            ", ".join(each.pods) or "-",
            *(["; ".join(text for text in (each.consumed, each.note) if text)] if noted else []),
        ]
        for each in found
    ]
    console.print(table(("node", "device", "claim", "pods", *(["note"] if noted else [])), rows))
