"""`apportion node`: the hardware and the claims of this node, for an administrator who sits on it.

In: where things are (the agent's own options and variables). Out: tables or JSON. `discover` and `partitions` change nothing;
`prepare` and `unprepare` do what kubelet would ask for, by the agent's journal and locks; `recover` takes the mark off a sick card. Exit status: 0 done, 1 refused by hardware
or state, 2 bad input.
"""

import asyncio
import logging
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol

import structlog
import typer
from rich.console import Console

from apportion.cli import document, node_tables, places
from apportion.errors import ApportionError, BrokenInput

Json = dict[str, Any]
Output = Annotated[str, typer.Option("-o", "--output", help="text or json.")]


@dataclass(frozen=True, slots=True)
class Where:
    """Where the node's things are; fields as the agent's options."""

    node: str
    backend: str
    host_root: Path
    simulation: Path | None
    plugins_dir: Path
    cdi_dir: Path
    state_dir: Path
    driver_gpu: str
    driver_npu: str
    driver_rdma: str


class Tools(Protocol):
    """What the agent's side can do here. Everything raises ApportionError."""

    async def discover(self) -> Json:
        """Return the cards."""

    async def partitions(self) -> Json:
        """Return partitions and prepared claims."""

    async def prepare(self, raw: Json) -> Json:
        """Prepare a claim."""

    async def unprepare(self, uid: str) -> Json:
        """Free a claim's devices."""

    async def recover(self, name: str) -> Json:
        """Take the mark of an error off a card."""


def commands(open_tools: Callable[[Where], Tools]) -> typer.Typer:
    """Return the group of commands; `open_tools` gives the agent's side."""
    app = typer.Typer(
        help="Look at this node's devices, and prepare claims by hand.",
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def where(
        context: typer.Context,
        node_name: Annotated[
            str,
            typer.Option(help="Name of this node's Node object; default: the host's.", envvar="NODE_NAME"),
        ] = "",
        backend: places.Backends = "auto",
        host_root: places.HostRoot = places.HOST_ROOT,
        simulation: places.Simulation = None,
        plugins_dir: places.PluginsDir = places.PLUGINS_DIR,
        cdi_dir: places.CdiDir = places.CDI_DIR,
        state_dir: places.StateDir = places.STATE_DIR,
        driver_gpu: places.DriverGpu = places.DRIVER_GPU,
        driver_npu: places.DriverNpu = places.DRIVER_NPU,
        driver_rdma: places.DriverRdma = places.DRIVER_RDMA,
    ) -> None:
        _quiet()
        context.obj = Where(
            node=node_name or socket.gethostname().lower(),
            backend=backend,
            host_root=host_root,
            simulation=simulation,
            plugins_dir=plugins_dir,
            cdi_dir=cdi_dir,
            state_dir=state_dir,
            driver_gpu=driver_gpu,
            driver_npu=driver_npu,
            driver_rdma=driver_rdma,
        )

    @app.command()
    def discover(context: typer.Context, output: Output = "text") -> None:
        """Show the cards: what they are, where they are plugged in, how they fare, what they can be cut into."""
        _show(lambda: open_tools(context.obj).discover(), output, node_tables.cards)

    @app.command()
    def partitions(context: typer.Context, output: Output = "text") -> None:
        """Show what is cut on the hardware, whose it is, and which claims are prepared."""
        _show(lambda: open_tools(context.obj).partitions(), output, node_tables.partitions)

    @app.command()
    def prepare(
        context: typer.Context,
        claim_file: Annotated[
            Path,
            typer.Option(
                help="An allocated ResourceClaim, as `kubectl get -o json` writes it; -: standard input."
            ),
        ],
        output: Output = "text",
    ) -> None:
        """Prepare an allocated claim without kubelet: cut its partitions, write its CDI file."""
        raw = _read(claim_file)
        _show(lambda: open_tools(context.obj).prepare(raw), output, node_tables.prepared)

    @app.command()
    def unprepare(
        context: typer.Context,
        claim_file: Annotated[Path | None, typer.Option(help="The ResourceClaim; -: standard input.")] = None,
        uid: Annotated[str, typer.Option(help="Or its UID, as `partitions` shows it.")] = "",
        output: Output = "text",
    ) -> None:
        """Free the devices of a claim that was prepared; nothing of it may run any more."""
        if bool(uid) == (claim_file is not None):
            raise document.refuse("give either --claim-file or --uid")
        if claim_file is not None:
            uid = str((_read(claim_file).get("metadata") or {}).get("uid") or "")
        if not uid:
            raise document.refuse(f"{claim_file}: metadata.uid: it is missing")
        _show(lambda: open_tools(context.obj).unprepare(uid), output, node_tables.released)

    @app.command()
    def recover(
        context: typer.Context,
        card: Annotated[str, typer.Argument(help="The card, as `discover` names it.")],
        output: Output = "text",
    ) -> None:
        """Say that a card is well again after an error that the driver reported once (XID): after a reset, say."""
        _show(lambda: open_tools(context.obj).recover(card), output, node_tables.recovered)

    return app


def _read(file: Path) -> Json:
    try:
        raw = document.load(document.read(file))
    except BrokenInput as error:
        raise document.refuse(f"{file}: {error}") from None
    if not isinstance(raw, dict):
        raise document.refuse(f"{file}: a ResourceClaim is wanted")
    return raw


def _show(
    ask: Callable[[], Awaitable[Json]], output: str, table: Callable[[Mapping[str, Any], Console], None]
) -> None:
    if output not in {"text", "json"}:
        raise document.refuse(f"-o {output}: there are text and json")

    async def asked() -> Json:
        return await ask()

    try:
        found = asyncio.run(asked())
    except BrokenInput as error:
        raise document.refuse(str(error)) from None
    except (ApportionError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    if output == "json":
        typer.echo(document.dump(found, indent=True))
    else:
        table(found, Console())


def _quiet() -> None:
    """Keep the agent's log out of tables and JSON; what a person should know goes to standard error."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
