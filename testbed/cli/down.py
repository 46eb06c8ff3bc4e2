"""`python -m testbed down`: end a testbed that `up` started, from any shell."""

import asyncio

import typer
from rich.console import Console

from testbed import state
from testbed.cli import options


def down(name: options.Name = options.DEFAULT_NAME) -> None:
    """End a testbed and delete its data."""
    saved = state.load(name)
    if saved is None:
        Console(stderr=True).print(f"no testbed {name!r} is up", highlight=False)
        raise typer.Exit(0)
    asyncio.run(saved.end())
    Console(stderr=True).print(f"testbed {name!r} is down", highlight=False)
