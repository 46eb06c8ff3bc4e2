"""`python -m testbed real-card`: what the agent would find on the real cards of this machine, as a report to send."""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from pynvml import NVMLError
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from apportion.agent.devices.hostfs import HostFiles
from apportion.agent.devices.nvml.driverfiles import DriverFiles
from apportion.agent.settings import AgentOptions
from testbed.realcard.answers import answers
from testbed.realcard.container import container_check, why_none
from testbed.realcard.cutting import candidate, cut_and_remove, smallest
from testbed.realcard.look import Found, look
from testbed.realcard.report import Check, Json, Report, Verdict

_COLOURS = {Verdict.OK: "green", Verdict.BAD: "red", Verdict.UNKNOWN: "yellow"}


def real_card(
    write: Annotated[  # noqa: FBT002
        bool, typer.Option("--write", help="Also cut and remove one partition on an idle, empty card; asks.")
    ] = False,
    names: Annotated[  # noqa: FBT002
        bool, typer.Option("--names", help="Leave UUIDs and serial numbers in the report as they are.")
    ] = False,
    report: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("real-card.json"),
    host_root: Annotated[Path, typer.Option(help="Where the host's /proc, /sys and /dev are.")] = Path("/"),
    cdi_dir: Annotated[Path, typer.Option(help="Where the container runtime looks for CDI files.")] = Path(
        "/var/run/cdi"
    ),
) -> None:
    """Read the real cards of this machine, check what containers would get, and write a report."""
    console = Console(width=None if sys.stdout.isatty() else 132)
    # Before the agent's own session: what a handle is worth afterwards is one of the questions.
    said = _answers(host_root)
    found, cards = look(AgentOptions(node="real-card", host_root=host_root))
    checks = [*found.checks, *_containers(cards, HostFiles(host_root), cdi_dir)]
    if write:
        checks += _written(cards, HostFiles(host_root), console)
    whole = replace(found, checks=tuple(checks), answers=said)
    _show(whole, console)
    report.write_text(f"{json.dumps(whole.to_json(names=names), indent=1)}\n", encoding="utf-8")
    console.print(f"The report is in {report}. It names no UUID and no host, unless --names was given.")
    if not whole.fine:
        raise typer.Exit(1)


def _answers(host_root: Path) -> tuple[Json, ...]:
    DriverFiles(host_root).preload()
    try:
        return tuple(each.to_json() for each in answers())
    except NVMLError:
        # No driver, or none that answers: the checks say so.
        return ()


def _containers(cards: Sequence[Found], host: HostFiles, cdi_dir: Path) -> list[Check]:
    reason = why_none()
    if reason:
        return [Check("a container gets a card", Verdict.UNKNOWN, reason)]
    return [container_check(each.card, each.edits, host=host, cdi_dir=cdi_dir) for each in cards]


def _written(cards: Sequence[Found], host: HostFiles, console: Console) -> list[Check]:
    chosen = candidate(cards)
    if chosen is None:
        return [Check("cut and remove", Verdict.UNKNOWN, "no card is idle, empty and can be cut")]
    profile = smallest(chosen).name
    if not typer.confirm(f"Cut a {profile} on {chosen.card.name} ({chosen.card.uuid}), and remove it?"):
        return [Check("cut and remove", Verdict.UNKNOWN, "it was not wanted")]
    with console.status(f"{chosen.card.name}: cutting {profile}"):
        return list(cut_and_remove(chosen, host))


def _show(report: Report, console: Console) -> None:
    cards = Table("backend", "cards", "discovery", "CPU of a look", title="Devices", title_justify="left")
    for each in report.backends:
        names = ", ".join(card["name"] for card in each.cards) or each.error or "-"
        shown = (names, f"{each.discovery:.2f} s", f"{each.look:.1f} ms")
        cards.add_row(each.name, *(shown if each.present else ("not on this machine", "-", "-")))
    console.print(cards)
    checks = Table("check", "verdict", "what was found", title="Checks", title_justify="left")
    for check in report.checks:
        colour = _COLOURS[check.verdict]
        checks.add_row(check.name, f"[{colour}]{check.verdict}[/]", escape(check.said))
    console.print(checks)
