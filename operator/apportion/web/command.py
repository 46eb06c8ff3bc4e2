"""`apportion web`: the page about a cluster, on this machine, with the rights of the user.

In: options. Out: a page at http://localhost:PORT/ until it is stopped. Exit status: 0 stopped, 2 the cluster cannot be reached at the start or the port is taken,
3 the cluster does not fit into the memory that the page may take.
The operator's option --web-port starts the same.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from apportion import logs
from apportion.cli import document
from apportion.cli.world.options import Context, Drivers, Kubeconfig, Schedulers
from apportion.errors import ApportionError
from apportion.web.memory import SHARE, SHORT, MemoryLimit, ShortOfMemory, container_limit, goes_first
from apportion.web.options import WebHosts, WebMemory, bytes_of

_USERS_OWN = Path(".kube/config")
_NICE = 10
"""Of two that need the processor, page and operator, the operator goes first."""


def web(
    port: Annotated[
        int,
        typer.Option(
            "--web-port", help="Port on the loopback addresses.", envvar="WEB_PORT", min=1, max=65535
        ),
    ] = 8090,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", help="Namespace of the operator's Lease.")
    ] = "apportion-system",
    hosts: WebHosts = "",
    memory: WebMemory = "",
    schedulers: Schedulers = None,
    drivers: Drivers = None,
    lease: Annotated[str, typer.Option(hidden=True)] = "apportion-operator",
    replica: Annotated[str, typer.Option(hidden=True)] = "",
    log_format: Annotated[str, typer.Option(hidden=True)] = "console",
) -> None:
    """Serve a page about the cluster on localhost, read only."""
    from apportion.web.server import PageSettings, serve

    logs.set_up("json" if log_format == "json" else "console")
    most = bytes_of(memory)
    if replica:
        os.nice(_NICE)
        goes_first()
        if most is None and (limit := container_limit()) is not None:
            most = int(SHARE * limit)
    elif kubeconfig is None and (Path.home() / _USERS_OWN).exists():
        kubeconfig = Path.home() / _USERS_OWN
    settings = PageSettings(
        port=port,
        hosts=document.names([hosts]),
        kubeconfig=kubeconfig,
        context=context,
        namespace=namespace,
        lease=lease,
        replica=replica,
        schedulers=document.names(schedulers),
        drivers=document.names(drivers),
        memory=most,
    )

    async def until_stopped() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, stop.set)
        if replica:
            await loop.connect_read_pipe(lambda: _Ends(stop), sys.stdin)
        await serve(settings, stop)

    try:
        asyncio.run(until_stopped())
    except (MemoryError, ShortOfMemory):
        typer.echo(f"error: {MemoryLimit(most).short()}", err=True)
        raise typer.Exit(SHORT) from None
    except ApportionError as error:
        raise document.refuse(str(error)) from None


class _Ends(asyncio.Protocol):
    """Stops when the operator, which has the other end of standard input, is gone."""

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop = stop

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - however it ended
        """Stop."""
        self._stop.set()
