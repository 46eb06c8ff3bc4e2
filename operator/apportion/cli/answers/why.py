"""`apportion why`: why a claim or pod waits, and what would make it fit; or why it is where it is.

In: the name of a claim or pod; a cluster, live or from a file. Out: the reason in one word and in the words of the operator's Event, the
nodes by what they lack, the nearest miss, and changes each of which would be enough. Exit status: 0 it is served or would be now, 1 it is
not, or is not there, 2 bad input.
"""

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console

from apportion.api.meant import meant
from apportion.cli import document
from apportion.cli.answers.decisions import Decisions, Reason
from apportion.cli.answers.fit import plain_reason, say_reason
from apportion.cli.answers.output import NOT_SERVED, Output, require_format, say, show, table
from apportion.cli.answers.story import FITS, Story, What, find, story_of
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

_KINDS = {
    **dict.fromkeys(("claim", "claims", "resourceclaim", "resourceclaims"), What.CLAIM),
    **dict.fromkeys(("pod", "pods", "po"), What.POD),
}
"""By the names that kubectl has for them."""


def why(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="claim|pod", help="claim or pod; or KIND/NAME.", autocompletion=lambda: [*What]
        ),
    ],
    name: Annotated[str, typer.Argument(help="Its name, or NAMESPACE/NAME.", show_default=False)] = "",
    namespace: Annotated[str, typer.Option("-n", "--namespace", help="Its namespace.")] = "default",
    world: File = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Output = "table",
    without_node: WithoutNode = None,
    add_nodes: AddNodes = None,
    schedulers: Schedulers = None,
    drivers: Drivers = None,
) -> None:
    """Say why a claim or pod waits and what would help, or why it is where it is."""
    require_format(output)
    kind, _, after = kind.partition("/")
    what = _KINDS.get(kind)
    if what is None:
        raise document.refuse(f"{kind}: there are claim and pod")
    if bool(name) == bool(after):
        raise document.refuse(f"write {what.value} NAME, or {what.value}/NAME")
    name = name or after
    if "/" in name:
        namespace, name = name.split("/", 1)
    opened = open_world(
        Source(world, kubeconfig, without_node, add_nodes, schedulers, drivers, context=context)
    )
    found = find(opened.snapshot, what, namespace, name)
    if found is None:
        known = _names(opened.snapshot, what, namespace)
        typer.echo(f"error: there is no {what.value} {namespace}/{name}{meant(name, known)}", err=True)
        raise typer.Exit(NOT_SERVED)
    story = story_of(opened, Decisions(opened.snapshot, opened.holds), found)
    if story.reason is None:
        _show_served(output, story)
    else:
        _show_waiting(output, story, story.reason, opened.snapshot)


def _names(snapshot: Snapshot, what: What, namespace: str) -> list[str]:
    objects = snapshot.claims if what is What.CLAIM else snapshot.pods
    return [each.name for each in objects.values() if each.namespace == namespace]


def _show_waiting(output: str, story: Story, reason: Reason, snapshot: Snapshot) -> None:
    found: dict[str, Any] = {"object": story.title, "served": False, **plain_reason(reason)}
    found["remedies"] = [
        {"remedy": each.name, "message": each.text, "node": each.node} for each in story.remedies
    ]

    def draw(console: Console) -> None:
        say(console, f"{story.title} waits")
        say_reason(console, reason, snapshot)
        if story.remedies:
            say(console, "each of these by itself would make it fit:")
            for each in story.remedies:
                say(console, f"- {each.name}: {each.text} (on {each.node})")
        elif reason.name != FITS:
            say(console, "nothing that was tried would make it fit")

    show(output, found, [reason.name], draw)
    if reason.name != FITS:
        raise typer.Exit(NOT_SERVED)


def _show_served(output: str, story: Story) -> None:
    def draw(console: Console) -> None:
        say(console, f"{story.title} is served")
        shown = [(row.node, row.claim, row.request, row.device) for row in story.devices]
        console.print(table(("node", "claim", "request", "device"), shown))
        for text in dict.fromkeys(
            f"allocated by {row.allocatedBy}; strategy {row.strategy}"
            + (f" of AllocationPolicy {row.policy}" if row.policy != "-" else "")
            for row in story.devices
        ):
            say(console, text)

    show(
        output,
        {"object": story.title, "served": True, "devices": [asdict(row) for row in story.devices]},
        dict.fromkeys(row.node for row in story.devices),
        draw,
    )
