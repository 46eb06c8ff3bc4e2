"""The command line of apportion; no other module reads arguments or environment variables."""

import asyncio
import os
import signal
import socket
import sys
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from apportion import logs
from apportion.agent.foreign import ForeignPolicy
from apportion.cli import completion, document, node
from apportion.cli.deferred import Deferred, DeferringGroup
from apportion.errors import ApportionError
from apportion.settings import DRIVERS, OperatorSettings, WebSettings
from apportion.web.options import WebHosts, WebMemory, bytes_of

_S = TypeVar("_S")


class _Commands(DeferringGroup):
    """The commands; those for people are imported when they are asked for."""

    deferred = (
        Deferred("crds", "Write the CustomResourceDefinitions as YAML, with a kustomization that lists them.", "apportion.cli.crds:crds"),
        Deferred("allocate", "Choose devices for the claims of a world, without a cluster.", "apportion.cli.allocate:command"),
        Deferred("select", "Say which devices a CEL selector matches, without a cluster.", "apportion.cli.select:select"),
        Deferred("release", "Open all gates, drop our finalizers, remove all partitions; stop the operator first.", "apportion.cli.release:release"),
        Deferred("migrate", "Show what workloads written for device plugins would ask for by claims, and where they would fit.", "apportion.cli.migrate:migrate"),
        Deferred("snapshot", "Write all that the operator decides by to standard output, for --world.", "apportion.cli.world.snapshot:snapshot"),
        Deferred("free", "Show how many devices of each model and profile are left.", "apportion.cli.answers.free:free"),
        Deferred("fit", "Say where claims or workloads would be placed now, and how many there is room for.", "apportion.cli.answers.fit:fit"),
        Deferred("defrag", "Make room by moving pods.", "apportion.cli.answers.defrag:app"),
        Deferred("why", "Say why a claim or pod waits and what would help, or why it is where it is.", "apportion.cli.answers.why:why"),
        Deferred("who", "Say who holds the devices of a node, or a device and its parts.", "apportion.cli.answers.who:who"),
        Deferred("status", "Show nodes, their cards as slices, who holds what, and what still fits.", "apportion.cli.answers.status:status"),
        Deferred("web", "Serve a page about the cluster on localhost, read only.", "apportion.web.command:web"),
        Deferred("top", "Show what is left, the cards and the queue, again and again; once without a terminal.", "apportion.cli.answers.top:top"),
        Deferred("version", "Print the version.", "apportion.cli.version:version"),
    )  # fmt: skip


app = typer.Typer(
    cls=_Commands,
    help="Allocates accelerators for Kubernetes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,  # typer's own asks which shell it runs in, which a launcher, a pipe or a container hides
    context_settings={"help_option_names": ["-h", "--help"]},
)


class LogFormat(StrEnum):
    """How log lines look."""

    JSON = "json"
    CONSOLE = "console"


Kubeconfig = Annotated[
    Path | None,
    typer.Option(help="Kubeconfig file; default: the pod's service account.", envvar="KUBECONFIG"),
]
HealthPort = Annotated[
    int,
    typer.Option(
        help="Port of /healthz, /readyz and /metrics; 0: none.", envvar="HEALTH_PORT", min=0, max=65535
    ),
]
Logs = Annotated[LogFormat, typer.Option("--log-format", help="Form of log lines.", envvar="LOG_FORMAT")]


@app.command()
def operator(
    namespace: Annotated[
        str, typer.Option(help="Namespace of the operator and its Lease.", envvar="NAMESPACE")
    ] = ("apportion-system"),
    kubeconfig: Kubeconfig = None,
    health_port: HealthPort = 8080,
    log_format: Logs = LogFormat.JSON,
    lease_duration: Annotated[
        float, typer.Option(help="Seconds after which another replica may take over.", min=9.0)
    ] = 15.0,
    schedulers: Annotated[
        str,
        typer.Option(
            help="Schedulers whose pods are served (spec.schedulerName), separated by commas.",
            envvar="SCHEDULERS",
        ),
    ] = "default-scheduler",
    drivers: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Further DRA drivers under whose names agents publish, beside {', '.join(sorted(DRIVERS))};"
            " separated by commas, and as often as needed.",
            envvar="DRIVERS",
        ),
    ] = None,
    web_port: Annotated[
        int,
        typer.Option(
            help="Port of the web page on the loopback addresses; 0: none.",
            envvar="WEB_PORT",
            min=0,
            max=65535,
        ),
    ] = 0,
    web_hosts: WebHosts = "",
    web_memory: WebMemory = "",
) -> None:
    """Run the operator: allocate claims, own partitions."""
    from apportion.app import run_operator

    if web_port and web_port == health_port:
        raise typer.BadParameter(f"{web_port} is the --health-port", param_hint="--web-port")
    logs.set_up(log_format.value)
    settings = OperatorSettings(
        namespace=namespace,
        identity=f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}",
        kubeconfig=kubeconfig,
        health_port=health_port,
        schedulers=document.names([schedulers]),
        drivers=DRIVERS | document.names(drivers),
        web=WebSettings(web_port, document.names([web_hosts]), log_format.value, bytes_of(web_memory)),
    )
    lease = replace(settings.lease, duration=lease_duration)
    _run(run_operator, replace(settings, lease=lease))


@app.command()
def agent(
    node_name: Annotated[str, typer.Option(help="Name of this node's Node object.", envvar="NODE_NAME")],
    backend: node.Backends = "auto",
    host_root: node.HostRoot = node.HOST_ROOT,
    nvidia_driver_root: node.NvidiaDriverRoot = None,
    simulation: node.Simulation = None,
    generic_devices: node.GenericDevices = None,
    plugins_dir: node.PluginsDir = node.PLUGINS_DIR,
    registry_dir: Annotated[
        Path, typer.Option(help="Kubelet's folder for registration sockets.", envvar="REGISTRY_DIR")
    ] = Path("/var/lib/kubelet/plugins_registry"),
    cdi_dir: node.CdiDir = node.CDI_DIR,
    state_dir: node.StateDir = node.STATE_DIR,
    run_dir: node.RunDir = node.RUN_DIR,
    nri_socket: Annotated[
        Path, typer.Option(help="Where the container runtime tells of sandboxes (NRI).", envvar="NRI_SOCKET")
    ] = Path("/var/run/nri/nri.sock"),
    driver_gpu: node.DriverGpu = node.DRIVER_GPU,
    driver_npu: node.DriverNpu = node.DRIVER_NPU,
    driver_rdma: node.DriverRdma = node.DRIVER_RDMA,
    driver_imex: node.DriverImex = node.DRIVER_IMEX,
    imex_channels: node.ImexChannels = 0,
    foreign: Annotated[
        ForeignPolicy,
        typer.Option(
            help="Partitions made by hand: leave them, adopt those that a layout wants, or quarantine their card.",
            envvar="FOREIGN",
        ),
    ] = ForeignPolicy.LEAVE,
    ignore_xids: Annotated[
        str,
        typer.Option(
            help="XID errors that make no GPU sick, with commas; those that programs cause never do.",
            envvar="IGNORE_XIDS",
        ),
    ] = "",
    instance: Annotated[
        str, typer.Option(help="The pod's UID; part of the sockets' names.", envvar="POD_UID")
    ] = "",
    kubeconfig: Kubeconfig = None,
    health_port: HealthPort = 8080,
    log_format: Logs = LogFormat.JSON,
) -> None:
    """Run the node agent: publish, cut, prepare."""
    from apportion.agent.agent import run_agent
    from apportion.agent.settings import AgentOptions

    logs.set_up(log_format.value)
    options = AgentOptions(
        node=node_name,
        backend=backend,
        host_root=host_root,
        nvidia_driver_root=nvidia_driver_root,
        simulation=simulation,
        generic_devices=generic_devices,
        plugins_dir=plugins_dir,
        registry_dir=registry_dir,
        cdi_dir=cdi_dir,
        state_dir=state_dir,
        run_dir=run_dir,
        nri_socket=nri_socket,
        driver_gpu=driver_gpu,
        driver_npu=driver_npu,
        driver_rdma=driver_rdma,
        driver_imex=driver_imex,
        imex_channels=imex_channels,
        kubeconfig=kubeconfig,
        health_port=health_port,
        instance=instance,
        foreign=foreign,
        ignored_xids=_xids(ignore_xids),
    )
    _run(run_agent, options)


def _xids(text: str) -> frozenset[int]:
    try:
        return frozenset(int(word) for word in text.split(",") if word.strip())
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no list of numbers", param_hint="--ignore-xids") from None


app.callback()(completion.options)


def _node_tools(options: node.NodeOptions) -> node.Tools:
    from apportion.agent.nodetools import NodeTools
    from apportion.agent.settings import AgentOptions

    return NodeTools(AgentOptions(**asdict(options)))


app.add_typer(node.commands(_node_tools), name="node")


def _run(start: Callable[[_S, asyncio.Event], Awaitable[None]], settings: _S) -> None:
    """Run the operator or the agent until SIGTERM or SIGINT; an ApportionError ends it with exit status 1."""

    async def until_signalled() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, stop.set)
        await start(settings, stop)

    try:
        asyncio.run(until_signalled())
    except ApportionError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)


def main() -> None:
    """Run the command line."""
    if completion.VARIABLE in os.environ:
        completion.begin()
    try:
        app(complete_var=completion.VARIABLE)
    finally:
        document.end()


if __name__ == "__main__":
    main()
