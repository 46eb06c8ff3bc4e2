"""Tables of `apportion node`. In: the answer of a command as JSON. Out: text on a console."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from apportion.dra.quantity import Quantity

GIB = 2**30
_GOOD = "Healthy"
Json = Mapping[str, Any]


def cards(found: Json, console: Console) -> None:
    """Show cards, one row each, and warnings about the host."""
    for reason in found["broken"]:
        console.print(f"[red]{escape(reason)}[/]", soft_wrap=True)
    if not found["cards"]:
        console.print(f"{escape(found['node'])}: no cards that apportion knows")
        return
    table = Table("card", "model", "UUID", "PCI", "NUMA", "memory", "health", "can be cut into")
    for card in found["cards"]:
        attributes = card["attributes"]
        health = card["health"]
        memory = card["capacity"].get("memory")
        profiles = ", ".join(f"{profile['name']} x{profile['most']}" for profile in card["profiles"])
        table.add_row(
            card["name"],
            escape(str(attributes.get("productName") or attributes.get("model") or card["kind"])),
            card["uuid"],
            card["pciBusID"],
            "-" if card["numaNode"] is None else str(card["numaNode"]),
            f"{memory / GIB:.0f} GiB" if memory else "-",
            health if health == _GOOD else f"[bold red]{health}[/]",
            escape(profiles) or "-",
        )
    console.print(table)
    for warning in dict.fromkeys(card["warning"] for card in found["cards"] if card["warning"]):
        console.print(f"[yellow]{escape(warning)}[/]", soft_wrap=True)


def partitions(found: Json, console: Console) -> None:
    """Show partitions with their owners, then the prepared claims, and what they have of the devices that they share."""
    table = Table("card", "profile", "start", "UUID", "owner", "step", "in use", "claims", title="Partitions")
    for row in found["partitions"]:
        owner = {"foreign": "[yellow]made by hand[/]", "layout": f"layout {escape(row['layout'])}"}.get(
            row["owner"], escape(row["partition"])
        )
        table.add_row(
            row["card"],
            escape(row["profile"]),
            str(row["start"]),
            row["uuid"] if row["complete"] else "[red]half made[/]",
            owner,
            row["step"] or "-",
            {True: "yes", False: "no", None: "unknown"}[row["inUse"]],
            escape(", ".join(row["claims"])) or "-",
        )
    console.print(table)
    claims = Table("claim", "UID", "driver", "step", "devices", title="Prepared claims")
    for row in found["claims"]:
        claims.add_row(escape(row["claim"]), row["uid"], row["driver"], row["step"], ", ".join(_devices(row)))
    console.print(claims)
    if found["shared"]:
        _print_shares(found["shared"], console)


def _print_shares(found: Sequence[Json], console: Console) -> None:
    """Show who has how much of the devices that claims share."""
    table = Table("device", "claim", "UID", "share", "memory", "cores", title="Shared devices")
    for device in found:
        for row in device["shares"]:
            cores = f"{row['cores']} %" if row["cores"] else "-"
            claim = escape(row["claim"]) + (" (admin)" if row["admin"] else "")
            table.add_row(device["device"], claim, row["uid"], row["shareID"], _size(row["memory"]), cores)
        left = _size(device["left"]) if device["left"] is not None else "unknown"
        table.add_row(device["device"], "left", "", "", left, "", end_section=True)
    console.print(table)


def _devices(claim: Json) -> list[str]:
    """Return the names of a claim's devices, and how much it has of those that it shares."""
    shares: dict[str, list[Json]] = defaultdict(list)
    for row in claim["shares"]:
        shares[row["device"]].append(row)
    return [
        f"{name} ({', '.join(_amount(row) for row in shares[name])})" if name in shares else name
        for name in dict.fromkeys(claim["devices"])
    ]


def _amount(share: Json) -> str:
    return _size(share["memory"]) + (f" and {share['cores']} %" if share["cores"] else "")


def _size(memory: int) -> str:
    return str(Quantity.whole(memory, "BinarySI"))


def prepared(found: Json, console: Console) -> None:
    """Show the devices with the CDI ids by which a container gets them."""
    table = Table("device", "share", "requests", "CDI id", title=escape(found["claim"]))
    for row in found["devices"]:
        share = _amount(row["share"]) if row["share"] is not None else "-"
        table.add_row(row["device"], share, ", ".join(row["requests"]), row["cdi"])
    console.print(table)
    for file in dict.fromkeys(row["file"] for row in found["devices"]):
        console.print(f"written: {escape(file)}", soft_wrap=True)


def released(found: Json, console: Console) -> None:
    """Show the devices that are free now."""
    names = ", ".join(found["released"])
    console.print(f"free: {names}" if names else f"claim {escape(found['uid'])} was not prepared here")


def forgotten(found: Json, console: Console) -> None:
    """Show what is forgotten."""
    names = ", ".join((*found["partitions"], *found["parts"]))
    said = f"{found['card']} ({found['uuid'] or 'of unknown UUID'}) is forgotten"
    console.print(escape(f"{said}, with {names}" if names else said), soft_wrap=True)


def recovered(found: Json, console: Console) -> None:
    """Show the reason for which the card was marked."""
    said = (
        f"was marked for {escape(found['reason'])}, and is not any more" if found["marked"] else "had no mark"
    )
    console.print(f"{found['card']} {said}", soft_wrap=True)
