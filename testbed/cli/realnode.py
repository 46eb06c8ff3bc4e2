"""`python -m testbed real-node`: pods with partitions on a real kubelet and containerd, from nothing to a clean machine."""

import asyncio
import sys
from typing import Annotated

import typer
from rich.console import Console

from testbed.realnode.demo import RealNodeDemo
from testbed.realnode.machinedemo import MachineDemo


def real_node(
    machine_cards: Annotated[  # noqa: FBT002
        bool,
        typer.Option(
            "--machine-cards", help="With this machine's NVIDIA GPUs, whole, instead of fake cards."
        ),
    ] = False,
) -> None:
    """Run pods with partitions on a real node: kubelet, containerd, runc. Needs root."""
    console = Console(width=None if sys.stdout.isatty() else 132)
    demo = MachineDemo(console) if machine_cards else RealNodeDemo(console)
    if not asyncio.run(demo.run()):
        raise typer.Exit(2)
    console.print("[green]Everything ended as expected, and nothing is left.[/]")
