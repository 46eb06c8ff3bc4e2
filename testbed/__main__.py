"""`python -m testbed COMMAND`: runs one of the commands of `cli/`. A further command is one file and one line here."""

import sys

import typer
from rich.console import Console

from testbed.cli.artifacts import artifacts
from testbed.cli.binaries import binaries
from testbed.cli.chaos import chaos
from testbed.cli.chart import chart
from testbed.cli.demo import demo
from testbed.cli.down import down
from testbed.cli.kubelets import kubelets
from testbed.cli.proto import proto
from testbed.cli.realcard import real_card
from testbed.cli.realnode import real_node
from testbed.cli.soak import soak
from testbed.cli.status import status
from testbed.cli.up import up
from testbed.errors import TestbedError

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
app.command()(chart)
app.command()(artifacts)
app.command()(demo)
app.command()(chaos)
app.command()(soak)
app.command("real-node")(real_node)
app.command("real-card")(real_card)
app.command(hidden=True)(kubelets)


def main() -> None:
    """Run a command; a TestbedError is printed as a message, not as a stack trace."""
    try:
        app()
    except TestbedError as error:
        Console(stderr=True, soft_wrap=True).print(f"[red]error:[/] {error}", highlight=False)
        sys.exit(1)


if __name__ == "__main__":
    main()
