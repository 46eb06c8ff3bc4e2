"""`python -m testbed VERB`: argv in, one of the verbs out. A further verb is one file and one line here."""

import sys

import typer
from rich.console import Console

from testbed.errors import TestbedError
from testbed.verbs.binaries import binaries
from testbed.verbs.chaos import chaos
from testbed.verbs.demo import demo
from testbed.verbs.down import down
from testbed.verbs.kubelets import kubelets
from testbed.verbs.proto import proto
from testbed.verbs.realnode import real_node
from testbed.verbs.status import status
from testbed.verbs.up import up

app = typer.Typer(
    name="testbed",
    help="A real Kubernetes control plane, and simulated nodes, on this machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(up)
app.command()(down)
app.command()(status)
app.command()(binaries)
app.command()(proto)
app.command()(demo)
app.command()(chaos)
app.command("real-node")(real_node)
app.command(hidden=True)(kubelets)


def main() -> None:
    """Run a verb; what the testbed raises on purpose is a text for a person, not a stack trace."""
    try:
        app()
    except TestbedError as error:
        Console(stderr=True, soft_wrap=True).print(f"[red]error:[/] {error}", highlight=False)
        sys.exit(1)


if __name__ == "__main__":
    main()
