"""`apportion fit`: would it fit, where, and how many.

In: claims, or workloads with their claims, from a file; a cluster, live or from a file. Out: where the operator would place them now,
one after the other, and why the next one would go nowhere. Nothing is written. Without a workload all claims of the file are for one
copy on one node, and devices alone decide. Exit status: 0 all have a place, 1 not all have, 2 bad input.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from apportion.allocator.explain.render import render
from apportion.cli import document
from apportion.cli.answers.copies import copies_of
from apportion.cli.answers.decisions import DEVICES_HELD, Reason
from apportion.cli.answers.fitting import MOST, Fitting, Placed
from apportion.cli.answers.output import NOT_SERVED, Output, require_format, say, show, table
from apportion.cli.world.holds import said
from apportion.cli.world.objects import objects_of
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
from apportion.cluster.snapshot import Snapshot
from apportion.errors import ApportionError
from apportion.scheduling.events.events import with_names


def fit(
    file: Annotated[
        Path,
        typer.Option(
            "-f",
            "--file",
            help="ResourceClaims, templates, pods and workloads (YAML or JSON); -: standard input.",
        ),
    ],
    replicas: Annotated[
        int | None,
        typer.Option(help="How many; default: as many as the workload says.", min=1),
    ] = None,
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", help="Of objects that name none.")
    ] = "default",
    world: File = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Output = "table",
    without_node: WithoutNode = None,
    add_nodes: AddNodes = None,
    schedulers: Schedulers = None,
    drivers: Drivers = None,
) -> None:
    """Say where claims or workloads would be placed now, and how many there is room for."""
    require_format(output)
    if str(file) == "-" and str(world) == "-":
        raise document.refuse("-f and --world cannot both be standard input")
    try:
        asked, shared = copies_of(objects_of(file), namespace)
    except ApportionError as error:
        raise document.refuse(f"{file}: {error}") from None
    source = Source(world, kubeconfig, without_node, add_nodes, schedulers, drivers, context=context)
    opened = open_world(source)
    fitting = Fitting(opened, shared)
    try:
        # Where others come after it, what fits beyond what is wanted would be taken from them.
        placed = [fitting.place(each, replicas or each.wanted, further=len(asked) == 1) for each in asked]
    except ApportionError as error:
        raise document.refuse(f"{file}: {error}") from None
    rows = [_plain(each) for each in placed]
    served = all(each.served for each in placed)
    names = (node for each in placed for node in sorted(each.nodes))
    snapshot = opened.snapshot
    show(output, {"served": served, "asked": rows}, names, lambda console: _draw(console, placed, snapshot))
    if not served:
        raise typer.Exit(NOT_SERVED)


def _plain(found: Placed) -> dict[str, Any]:
    reason = found.reason
    return {
        "name": found.copies.name,
        "namespace": found.copies.namespace,
        "wanted": found.wanted,
        "placed": sum(found.nodes.values()),
        "most": found.most,
        "nodes": dict(found.nodes),
        "devices": [
            {"copy": copy, "node": node, "claim": claim, "request": request, "device": device}
            for copy, node, claim, request, device in found.devices
        ],
        "reason": plain_reason(reason) if reason is not None else None,
    }


def plain_reason(reason: Reason) -> dict[str, Any]:
    """Return a reason as plain data."""
    found: dict[str, Any] = {"reason": reason.name, "message": reason.text}
    if reason.refusal is not None:
        found["explanation"] = reason.refusal.explanation.to_json()
    if reason.held:
        found["holds"] = [{"name": each.metadata.name, "message": said(each)} for each in reason.held]
    return found


def say_reason(console: Console, reason: Reason, snapshot: Snapshot) -> None:
    """Write why there is no decision, with the funnel of each group of nodes where the allocator was asked, and holders by name."""
    if reason.refusal is None or reason.name == DEVICES_HELD:
        say(console, f"{reason.name}: {reason.text}")
        return
    say(console, f"{reason.name}:")
    say(console, with_names(render(reason.refusal.explanation), snapshot))
    for each in reason.held:
        say(console, f"held for it: {said(each)}")


def _draw(console: Console, placed: Sequence[Placed], snapshot: Snapshot) -> None:
    for each in placed:
        count = sum(each.nodes.values())
        title = f"{each.copies.namespace}/{each.copies.name}: {count} of {each.wanted} would be placed"
        if each.served and each.most > each.wanted:
            title += f"; there is room for {each.most}{' at least' if each.most >= MOST else ''}"
        say(console, title)
        rows = [(str(copy), node, claim, device) for copy, node, claim, _, device in each.devices]
        if rows:
            console.print(table(("copy", "node", "claim", "device"), rows))
        if each.reason is not None and not each.served:
            say_reason(console, each.reason, snapshot)
