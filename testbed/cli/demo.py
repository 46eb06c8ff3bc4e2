"""`python -m testbed demo`: the whole product on this machine, from nothing to a clean machine."""

import asyncio
import sys
from typing import Annotated

import typer
from rich.console import Console

from testbed.cli import options
from testbed.demo.demo import Demo


def demo(
    kubernetes: options.Kubernetes = options.DEFAULT_KUBERNETES,
    *,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave everything running until Ctrl-C, and print the kubeconfig.")
    ] = False,
) -> None:
    """Start a control plane and five simulated nodes, install, run the examples, clean up."""
    # Without a terminal there is no width to keep to; the tables need this much.
    console = Console(width=None if sys.stdout.isatty() else 132)
    if not asyncio.run(Demo(console, version=kubernetes, keep=keep).run()):
        console.print("[red]Not everything ended as expected; see the table above.[/]")
        sys.exit(1)
    console.print("[green]Everything ended as expected, and nothing is left.[/]")
