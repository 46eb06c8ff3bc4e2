"""The agent's options, as one value. The command line and the environment are read in `__main__` only."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from apportion.agent.devices.ascend.ranktable import RankTables
from apportion.agent.devices.imex.backend import CHANNEL
from apportion.agent.devices.stickyerrors import StickyErrors
from apportion.agent.devices.values import CardKind
from apportion.agent.foreign import ForeignPolicy
from apportion.agent.lifecycle.context import Timeouts

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@lru_cache(maxsize=8)
def _sticky_errors(folder: Path, boot_id: str) -> StickyErrors:
    # One for all who ask: what cannot be written is known to all of this process.
    return StickyErrors(folder, boot_id)


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """How one agent runs."""

    node: str
    """Name of its Node object, and of its pools."""

    backend: str = "auto"
    """Which hardware to look for: nvml, ascend, rdma, simulated, several with commas between, or auto for what is there.

    A simulation file counts as the one thing that is there."""

    host_root: Path = Path("/")
    """Where the host's /proc, /sys and /dev are, for backends of real hardware."""

    nvidia_driver_root: Path | None = None
    """Where the host has NVIDIA's driver, as the host sees it; None: at a usual place."""

    simulation: Path | None = None
    """Description of the simulated node; needed by the simulated backend."""

    generic_devices: Path | None = None
    """Configuration of devices that have no backend of their own; None: there are none."""

    plugins_dir: Path = Path("/var/lib/kubelet/plugins")
    """Kubelet's folder for plugins; each driver gets a folder in it."""

    registry_dir: Path = Path("/var/lib/kubelet/plugins_registry")
    """Kubelet's folder for registration sockets."""

    cdi_dir: Path = Path("/var/run/cdi")
    """Where the container runtime looks for CDI files; a reboot empties it."""

    state_dir: Path = Path("/var/lib/apportion")
    """Where the journal is; it must survive a reboot."""

    run_dir: Path = Path("/run/apportion")
    """Network namespaces that are kept, and files of interfaces; a reboot empties it, a new agent finds it as it was."""

    nri_socket: Path = Path("/var/run/nri/nri.sock")
    """Where the container runtime tells plugins of sandboxes."""

    driver_gpu: str = "gpu.apportion.dev"
    driver_npu: str = "npu.apportion.dev"
    driver_rdma: str = "rdma.apportion.dev"
    """DRA driver names."""

    driver_imex: str = "imex.apportion.dev"
    """DRA driver name of IMEX channels."""

    imex_channels: int = 0
    """How many IMEX channels are offered, from channel 0 on; 0: none, as beside NVIDIA's driver for ComputeDomains."""

    kubeconfig: Path | None = None
    """How to reach the API server; None: the pod's service account."""

    health_port: int = 0
    """Port of /healthz, /readyz and /metrics; 0: none."""

    instance: str = ""
    """The pod's UID, where two agents may overlap in a rolling update; part of the sockets' names."""

    boot_id: Path = BOOT_ID
    """File that holds another text after every reboot."""

    foreign: ForeignPolicy = ForeignPolicy.LEAVE
    """What to do about partitions that apportion did not make."""

    ignored_xids: frozenset[int] = frozenset()
    """XID errors that make no GPU sick, beside those that programs cause (NVIDIA XID catalogue)."""

    health_interval: float = 2.0
    """Seconds between two polls of the hardware: health, foreign partitions."""

    held_interval: float = 10.0
    """Seconds between two looks at prepared claims, one GET each: at all with whole devices, at a sixth of those with partitions."""

    files_interval: float = 60.0
    """Seconds between two checks of the files of claims: for orphans, and for files that are gone."""

    registration_patience: float = 5.0
    """Seconds that new devices wait for kubelet to register the agent before they are published; it looks for plugins every second."""

    prepare_timeout: float = 30.0
    """Seconds that a prepare call waits for its partition; kubelet gives up after 45."""

    end_timeout: float = 22.0
    """Seconds that calls under way may take when the agent is told to end; its pod is killed after 30."""

    timeouts: Timeouts = field(default_factory=Timeouts)
    """How long workers wait."""

    at: Callable[[str], None] = lambda _: None
    """Called at every boundary between two steps; crash tests end the process in it."""

    @property
    def drivers(self) -> dict[str, str]:
        """The driver of each kind of card that has a backend of its own."""
        found: dict[str, str] = {
            CardKind.GPU: self.driver_gpu,
            CardKind.NPU: self.driver_npu,
            CardKind.NIC: self.driver_rdma,
        }
        return found | ({CHANNEL: self.driver_imex} if self.imex_channels else {})

    def rank_tables(self, driver: str) -> RankTables | None:
        """Return what makes rank tables of the node's NPUs, None for a driver of other cards."""
        return RankTables(self.host_root, self.node) if driver == self.driver_npu else None

    def sticky_errors(self) -> StickyErrors:
        """Return the sticky errors of cards: they outlive the agent, not a reboot."""
        return _sticky_errors(self.state_dir / "sick", self.read_boot_id())

    def read_boot_id(self) -> str:
        """Return the boot id; a platform without one counts as never rebooted."""
        return self.boot_id.read_text(encoding="utf-8").strip() if os.access(self.boot_id, os.R_OK) else ""
