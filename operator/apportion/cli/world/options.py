"""The options by which a command is told what cluster it is asked about, and the world that they lead to."""

import logging
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

import structlog
import typer

from apportion.cli import document
from apportion.cli.terminal import visible
from apportion.cli.world.live import read_live
from apportion.cli.world.objects import contents_of
from apportion.cli.world.whatif import with_nodes_like, without_nodes
from apportion.cli.world.world import World
from apportion.errors import ApportionError, BrokenInput

FROM_A_FILE = "The cluster from a file instead of the live one, as `apportion snapshot` or kubectl get -o yaml writes it; -: standard input."
File: TypeAlias = Annotated[Path | None, typer.Option("--world", help=FROM_A_FILE)]
Kubeconfig: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="Kubeconfig file; default: the user's, else the pod's account.", envvar="KUBECONFIG"),
]
Context: TypeAlias = Annotated[
    str | None, typer.Option("--context", help="Context of the kubeconfig; default: the current one.")
]
WithoutNode: TypeAlias = Annotated[
    list[str] | None, typer.Option("--without-node", help="As if this node were gone. May be repeated.")
]
AddNodes: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--add-nodes", help='As if there were more nodes: "N like NODE", empty ones. May be repeated.'
    ),
]
Schedulers: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--schedulers",
        help="Schedulers whose pods the operator serves, where it was given any (its --schedulers); separated by commas.",
    ),
]
Drivers: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--drivers", help="Further drivers of agents (the operator's --drivers); separated by commas."
    ),
]


@dataclass(frozen=True, slots=True)
class Source:
    """What the options say."""

    file: Path | None
    kubeconfig: Path | None
    without: Sequence[str] | None = None
    added: Sequence[str] | None = None
    schedulers: Sequence[str] | None = None
    drivers: Sequence[str] | None = None
    context: str | None = None


def open_world(source: Source) -> World:
    """Return the world that the options lead to; ends the command with exit status 2 where there is none.

    What cannot be read is named on standard error; it counts as far as the operator lets it.
    """
    keep_quiet()
    try:
        world = read_world(source)
    except ApportionError as error:
        raise document.refuse(str(error)) from None
    for found in world.unreadable():
        typer.echo(f"left out: {visible(str(found))}", err=True)
    return world


def read_world(source: Source) -> World:
    """Return the world that the options lead to, as it is now. Raises ApportionError."""
    if source.file is not None:
        objects, version, volumes = contents_of(source.file)
    else:
        (objects, version, volumes), _ = read_live(source.kubeconfig, context=source.context)
    if source.without:
        objects = without_nodes(objects, source.without)
    for text in source.added or ():
        count, name = _added(text)
        objects = with_nodes_like(objects, count, name)
    schedulers, drivers = document.names(source.schedulers), document.names(source.drivers)
    return World(objects, version, schedulers, drivers, volumes=volumes)


def keep_quiet() -> None:
    """Write what the operator's code logs to standard error, errors only: tables and JSON stay clean."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )


def _added(text: str) -> tuple[int, str]:
    found = re.fullmatch(r"\s*(\d{1,9})\s+like\s+(\S+)\s*", text)
    if found is None:
        raise BrokenInput(f'{text!r}: write "N like NODE"', field="--add-nodes")
    return int(found[1]), found[2]
