"""The demo's display.

In: steps, a view of the cluster, the examples. Out: one screen with cards, partitions, claims, pods and step times.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from testbed.example import Example, View

_CARD = re.compile(r"[a-z][a-z0-9]*-[0-9]+")


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the demo; `seconds` is None while it runs."""

    title: str
    seconds: float | None = None


def render(
    view: View | None, steps: Sequence[Step], left: Mapping[str, list[str]], examples: Sequence[Example]
) -> RenderableType:
    """Return the screen; `left` holds what is not as expected yet, by example."""
    parts: list[RenderableType] = [_steps(steps)]
    if view is not None:
        parts += [_nodes(view), _examples(view, left, examples)]
    return Group(*parts)


def _steps(steps: Sequence[Step]) -> Table:
    table = Table.grid(padding=(0, 2))
    for step in steps:
        done = step.seconds is not None
        table.add_row(
            "[green]✔[/]" if done else "[yellow]…[/]", step.title, f"{step.seconds:6.1f} s" if done else ""
        )
    return table


def _nodes(view: View) -> Table:
    table = Table(title="Nodes and cards", title_justify="left", expand=False)
    for column in ("node", "cards (used parts)", "partitions in the hardware", "published"):
        table.add_column(column)
    used = _used(view)
    for name in view.installation.nodes:
        cards = sorted(
            {device for (_, pool, device) in view.devices if pool == name and _is_card(device)},
            key=lambda card: int(card.rsplit("-", 1)[1]),
        )
        cells = Text()
        for card in cards:
            users = used.get((name, card), 0)
            whole = used.get((name, card, "whole"), 0)
            style = "black on red" if whole else "black on green" if users else "dim"
            cells.append(
                f" {card.rsplit('-', 1)[1]}{'■' if whole else '▪' * min(users, 3) or '·'} ", style=style
            )
        live = view.hardware[name]
        profiles = sorted(f"{row['card']}:{row['profile']}" for row in live)
        slices = sum(1 for (_, pool, _) in view.devices if pool == name)
        table.add_row(name, cells, "\n".join(profiles) or "-", f"{slices} devices")
    return table


def _examples(view: View, left: Mapping[str, list[str]], examples: Sequence[Example]) -> Table:
    table = Table(title="Examples", title_justify="left", expand=False)
    for column in ("example", "pods", "node", "devices", "bound to running", "as expected"):
        table.add_column(column)
    for example in examples:
        pods = [view.pods[name] for name in example.pods() if name in view.pods]
        phases = ", ".join(pod["status"].get("phase", "?") for pod in pods) or "-"
        nodes = ", ".join(sorted({pod["spec"].get("nodeName", "") for pod in pods} - {""})) or "-"
        devices = [
            device["name"] for reference in _references(example) for device in view.allocated(reference)
        ]
        problems = left.get(example.name, ["not looked at yet"])
        table.add_row(
            example.name,
            phases,
            nodes,
            "\n".join(devices) or "-",
            _bound(view, example),
            "[green]yes[/]" if not problems else f"[yellow]{problems[0]}[/]",
        )
    return table


def _references(example: Example) -> list[str]:
    return list(example.expect.get("devices", {}))


def _bound(view: View, example: Example) -> str:
    """Return how long pods took from being bound to running."""
    names = example.pods()
    return (
        "\n".join(
            f"{record.running - record.bound:.2f} s"
            for kubelet in view.installation.kubelets.values()
            for record in kubelet.records.values()
            if record.name in names and record.namespace in view.namespaces and record.running
        )
        or "-"
    )


def _is_card(device: str) -> bool:
    """Say whether this is a whole card, and no NIC: their names have more parts."""
    return _CARD.fullmatch(device) is not None


def _used(view: View) -> dict[tuple[str, ...], int]:
    """Count what claims use, per node and card."""
    used: dict[tuple[str, ...], int] = {}
    for claim in view.claims.values():
        results = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
        for result in results:
            card = "-".join(result["device"].split("-")[:2])
            if not _is_card(card):
                continue
            used[result["pool"], card] = used.get((result["pool"], card), 0) + 1
            if result["device"] == card:
                used[result["pool"], card, "whole"] = 1
    return used
