"""`python -m testbed status`: which testbeds run, and which of their processes."""

import typer
from rich.console import Console
from rich.table import Table

from testbed import state


def status() -> None:
    """List this user's testbeds; exits with 1 when a process of one has died."""
    console = Console()
    testbeds = [testbed for testbed in map(state.load, state.names()) if testbed is not None]
    if not testbeds:
        console.print("no testbed is up")
        return
    died = False
    for testbed in testbeds:
        table = Table(
            title=f"{testbed.name}: Kubernetes {testbed.kubernetes}, {testbed.nodes} simulated nodes",
            title_justify="left",
        )
        table.add_column("process")
        table.add_column("pid", justify="right")
        table.add_column("state")
        table.add_column("log", overflow="fold")
        for recorded in testbed.processes:
            alive = recorded.adopt().running()
            died = died or not alive
            table.add_row(
                recorded.name, str(recorded.pid), "[green]runs[/]" if alive else "[red]died[/]", recorded.log
            )
        console.print(table)
        console.print(f"export KUBECONFIG={testbed.kubeconfig}", soft_wrap=True)
    if died:
        raise typer.Exit(1)
