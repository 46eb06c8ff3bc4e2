"""Options of a node's folders and drivers, the same for `apportion agent` and `apportion node`."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

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
Simulation: TypeAlias = Annotated[
    Path | None, typer.Option(help="Description of the simulated node.", envvar="SIMULATION")
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
DriverGpu: TypeAlias = Annotated[str, typer.Option(help="DRA driver name for GPUs.", envvar="DRIVER_GPU")]
DriverNpu: TypeAlias = Annotated[str, typer.Option(help="DRA driver name for NPUs.", envvar="DRIVER_NPU")]
DriverRdma: TypeAlias = Annotated[str, typer.Option(help="DRA driver name for NICs.", envvar="DRIVER_RDMA")]

HOST_ROOT = Path("/")
PLUGINS_DIR = Path("/var/lib/kubelet/plugins")
CDI_DIR = Path("/var/run/cdi")
STATE_DIR = Path("/var/lib/apportion")
DRIVER_GPU = "gpu.apportion.dev"
DRIVER_NPU = "npu.apportion.dev"
DRIVER_RDMA = "rdma.apportion.dev"
