"""`apportion version`. Out: the version of the program."""

import typer

from apportion import __version__


def version() -> None:
    """Print the version."""
    typer.echo(__version__)
