"""`python -m testbed binaries`: provide the programs ahead of time, and say where each came from."""

import asyncio
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from testbed.binaries import provide
from testbed.cli import options
from testbed.versions import CONTROL_PLANE, NODE


def binaries(
    kubernetes: options.Kubernetes = options.DEFAULT_KUBERNETES,
    release_url: Annotated[
        str | None, typer.Option(help="Base address of the release site, if not Kubernetes' own.")
    ] = None,
    *,
    node: Annotated[
        bool, typer.Option("--node", help="Those of a real node too: kubelet, containerd, runc.")
    ] = False,
) -> None:
    """Find, download or build the programs of a control plane."""
    names = [*CONTROL_PLANE, *NODE] if node else CONTROL_PLANE
    found = asyncio.run(provide(kubernetes, names, site=release_url))
    table = Table("program", "from")
    table.add_column("path", overflow="fold")
    for name, path in found.paths.items():
        table.add_row(name, found.sources[name], str(path))
    Console().print(table)
