"""`python -m testbed real-node`: pods with partitions on a real kubelet and containerd, from nothing to a clean machine."""

import asyncio
import sys

import typer
from rich.console import Console

from testbed.realnode.demo import RealNodeDemo


def real_node() -> None:
    """Run pods with partitions on a real node: kubelet, containerd, runc. Needs root."""
    console = Console(width=None if sys.stdout.isatty() else 132)
    if not asyncio.run(RealNodeDemo(console).run()):
        raise typer.Exit(2)
    console.print("[green]Everything ended as expected, and nothing is left.[/]")
