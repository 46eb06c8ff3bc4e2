"""The console of the benchmarks that print tables."""

from rich.console import Console

WIDTH = 130
"""Columns of a table if the output is no terminal."""


def table_console(*, stderr: bool = False, width: int = WIDTH) -> Console:
    """Return a console on which tables are at least so wide if the output is no terminal."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=max(width, console.width))
