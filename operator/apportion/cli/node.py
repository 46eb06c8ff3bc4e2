"""`apportion node`: the hardware and the claims of this node, for an administrator on the node.

In: the agent's options and variables. Out: tables or JSON. `discover` and `partitions` change nothing; `prepare` and
`unprepare` do what kubelet asks for, with the agent's journal and locks; `recover` clears the error mark of a card, `forget` a card
that left for good. Exit status: 0 done, 1 refused by hardware or state, 2 bad input.
"""

import asyncio
import logging
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeAlias

import structlog
import typer
from rich.console import Console

from apportion.cli import document, nodetables
from apportion.errors import ApportionError, BrokenInput

Json = dict[str, Any]


def _absolute(path: Path | None) -> Path | None:
    if path is not None and not path.is_absolute():
        raise typer.BadParameter(f"{path} is not absolute")
    return path


# Options of a node's folders and drivers, the same for `apportion agent`.
Backends: TypeAlias = Annotated[
    str,
    typer.Option(
        help="Hardware to look for: auto, or of nvml, ascend, rdma and simulated a list with commas.",
        envvar="BACKEND",
    ),
]
HostRoot: TypeAlias = Annotated[
    Path, typer.Option(help="Where the host's /proc, /sys and /dev are.", envvar="HOST_ROOT")
]
NvidiaDriverRoot: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        help="Where the host has NVIDIA's driver, if not at a usual place.",
        envvar="NVIDIA_DRIVER_ROOT",
        callback=_absolute,
    ),
]
Simulation: TypeAlias = Annotated[
    Path | None, typer.Option(help="Description of the simulated node.", envvar="SIMULATION")
]
GenericDevices: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        help="Configuration of devices of other kinds, found by PCI ids or in /sys.", envvar="GENERIC_DEVICES"
    ),
]
PluginsDir: TypeAlias = Annotated[
    Path, typer.Option(help="Kubelet's folder for plugins.", envvar="PLUGINS_DIR")
]
CdiDir: TypeAlias = Annotated[
    Path, typer.Option(help="Where the container runtime looks for CDI files.", envvar="CDI_DIR")
]
StateDir: TypeAlias = Annotated[
    Path, typer.Option(help="Where the journal is; it must survive a reboot.", envvar="STATE_DIR")
]
RunDir: TypeAlias = Annotated[
    Path,
    typer.Option(
        help="What a reboot may take: network namespaces that are kept, notes of what is set up.",
        envvar="RUN_DIR",
    ),
]
DriverGpu: TypeAlias = Annotated[str, typer.Option(help="DRA driver name for GPUs.", envvar="DRIVER_GPU")]
DriverNpu: TypeAlias = Annotated[str, typer.Option(help="DRA driver name for NPUs.", envvar="DRIVER_NPU")]
DriverRdma: TypeAlias = Annotated[str, typer.Option(help="DRA driver name for NICs.", envvar="DRIVER_RDMA")]
DriverImex: TypeAlias = Annotated[
    str, typer.Option(help="DRA driver name for IMEX channels.", envvar="DRIVER_IMEX")
]
ImexChannels: TypeAlias = Annotated[
    int,
    typer.Option(
        help="How many IMEX channels to offer where GPUs are in a clique of an NVLink fabric; 0: none.",
        envvar="IMEX_CHANNELS",
        min=0,
        max=2048,
    ),
]

HOST_ROOT = Path("/")
PLUGINS_DIR = Path("/var/lib/kubelet/plugins")
CDI_DIR = Path("/var/run/cdi")
STATE_DIR = Path("/var/lib/apportion")
RUN_DIR = Path("/run/apportion")
DRIVER_GPU = "gpu.apportion.dev"
DRIVER_NPU = "npu.apportion.dev"
DRIVER_RDMA = "rdma.apportion.dev"
DRIVER_IMEX = "imex.apportion.dev"


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """The options of all commands; fields as in the agent's options."""

    node: str
    backend: str
    host_root: Path
    nvidia_driver_root: Path | None
    simulation: Path | None
    generic_devices: Path | None
    plugins_dir: Path
    cdi_dir: Path
    state_dir: Path
    run_dir: Path
    driver_gpu: str
    driver_npu: str
    driver_rdma: str
    driver_imex: str
    imex_channels: int


class Tools(Protocol):
    """The agent's operations on this node. Every method raises ApportionError."""

    async def discover(self) -> Json:
        """Return the cards."""

    async def partitions(self) -> Json:
        """Return partitions and prepared claims."""

    async def prepare(self, raw: Json) -> Json:
        """Prepare a claim."""

    async def unprepare(self, uid: str) -> Json:
        """Free a claim's devices."""

    async def recover(self, name: str) -> Json:
        """Clear the error mark of a card."""

    async def forget(self, name: str) -> Json:
        """Forget a card that left for good."""


def commands(open_tools: Callable[[NodeOptions], Tools]) -> typer.Typer:
    """Return the group of commands; `open_tools` returns the agent's operations."""
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
        backend: Backends = "auto",
        host_root: HostRoot = HOST_ROOT,
        nvidia_driver_root: NvidiaDriverRoot = None,
        simulation: Simulation = None,
        generic_devices: GenericDevices = None,
        plugins_dir: PluginsDir = PLUGINS_DIR,
        cdi_dir: CdiDir = CDI_DIR,
        state_dir: StateDir = STATE_DIR,
        run_dir: RunDir = RUN_DIR,
        driver_gpu: DriverGpu = DRIVER_GPU,
        driver_npu: DriverNpu = DRIVER_NPU,
        driver_rdma: DriverRdma = DRIVER_RDMA,
        driver_imex: DriverImex = DRIVER_IMEX,
        imex_channels: ImexChannels = 0,
    ) -> None:
        _quiet()
        context.obj = NodeOptions(
            node=node_name or socket.gethostname().lower(),
            backend=backend,
            host_root=host_root,
            nvidia_driver_root=nvidia_driver_root,
            simulation=simulation,
            generic_devices=generic_devices,
            plugins_dir=plugins_dir,
            cdi_dir=cdi_dir,
            state_dir=state_dir,
            run_dir=run_dir,
            driver_gpu=driver_gpu,
            driver_npu=driver_npu,
            driver_rdma=driver_rdma,
            driver_imex=driver_imex,
            imex_channels=imex_channels,
        )

    @app.command()
    def discover(context: typer.Context, output: document.Output = "table") -> None:
        """Show the cards: what they are, where they are plugged in, how they fare, what they can be cut into."""
        _show(lambda: open_tools(context.obj).discover(), output, nodetables.cards)

    @app.command()
    def partitions(context: typer.Context, output: document.Output = "table") -> None:
        """Show what is cut on the hardware, whose it is, and which claims are prepared."""
        _show(lambda: open_tools(context.obj).partitions(), output, nodetables.partitions)

    @app.command()
    def prepare(
        context: typer.Context,
        claim_file: Annotated[
            Path,
            typer.Option(
                help="An allocated ResourceClaim, as `kubectl get -o json` writes it; -: standard input."
            ),
        ],
        output: document.Output = "table",
    ) -> None:
        """Prepare an allocated claim without kubelet: cut its partitions, write its CDI file."""
        raw = _read(claim_file)
        _show(lambda: open_tools(context.obj).prepare(raw), output, nodetables.prepared)

    @app.command()
    def unprepare(
        context: typer.Context,
        claim_file: Annotated[Path | None, typer.Option(help="The ResourceClaim; -: standard input.")] = None,
        uid: Annotated[str, typer.Option(help="Or its UID, as `partitions` shows it.")] = "",
        output: document.Output = "table",
    ) -> None:
        """Free the devices of a claim that was prepared; nothing of it may run any more."""
        if bool(uid) == (claim_file is not None):
            raise document.refuse("give either --claim-file or --uid")
        if claim_file is not None:
            uid = str((_read(claim_file).get("metadata") or {}).get("uid") or "")
        if not uid:
            raise document.refuse(f"{claim_file}: metadata.uid: it is missing")
        _show(lambda: open_tools(context.obj).unprepare(uid), output, nodetables.released)

    @app.command()
    def recover(
        context: typer.Context,
        card: Annotated[str, typer.Argument(help="The card, as `discover` names it.")],
        output: document.Output = "table",
    ) -> None:
        """Say that a card is well again after an error that the driver reported once (XID): after a reset, say."""
        _show(lambda: open_tools(context.obj).recover(card), output, nodetables.recovered)

    @app.command()
    def forget(
        context: typer.Context,
        card: Annotated[str, typer.Argument(help="The card, by the name that it had.")],
        output: document.Output = "table",
    ) -> None:
        """Say that a card has left for good, and its partitions and parts with it: their names are free for others."""
        _show(lambda: open_tools(context.obj).forget(card), output, nodetables.forgotten)

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
    document.require_format(output)

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
        document.write(found, indent=True)
    else:
        table(found, Console())


def _quiet() -> None:
    """Write the agent's log to standard error, warnings only, so that tables and JSON stay clean."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
