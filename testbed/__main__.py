"""`python -m testbed VERB`: argv in, one of the verbs out. A further verb is one file and one line here."""

import typer

from testbed.verbs.proto import proto

app = typer.Typer(
    name="testbed",
    help="A real Kubernetes control plane, and simulated nodes, on this machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.callback()(lambda: None)  # with a callback a single verb keeps its name

app.command()(proto)

if __name__ == "__main__":
    app()
