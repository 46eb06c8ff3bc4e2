"""The real kubelet of a real node: its configuration, its start and its end."""

import os
import signal
from pathlib import Path

import yaml

from testbed.binaries import Binaries
from testbed.ports import free_ports
from testbed.process import Process
from testbed.readiness import answers, until_ready
from testbed.realnode.containerd import SOCKET
from testbed.realnode.isolatedhost import IsolatedHost

_GRACE_SECONDS = 5.0


class Kubelet:
    """kubelet on an isolated host, with the identity of its node."""

    def __init__(self, host: IsolatedHost, binaries: Binaries, *, name: str, kubeconfig: Path) -> None:
        self.log = host.folder / "kubelet.log"
        self._host = host
        self._program = binaries["kubelet"]
        self._name = name
        self._kubeconfig = kubeconfig
        self._process: Process | None = None

    async def start(self) -> None:
        """Start it and wait until it is healthy. Raises ComponentDiedError or NotReadyInTimeError."""
        [port] = free_ports(1)
        config = self._host.folder / "kubelet.yaml"
        config.write_text(yaml.safe_dump(_config(port, self._host.group)))
        command: list[str | Path] = [
            self._program,
            f"--config={config}",
            f"--kubeconfig={self._kubeconfig}",
            f"--hostname-override={self._name}",
            "--v=2",
        ]
        self._process = Process.start("kubelet", self._host.command(*command), self.log)
        await until_ready(self._process, lambda: answers(f"http://127.0.0.1:{port}/healthz"))

    async def stop(self) -> None:
        """End it; its pods go on."""
        if self._process is not None:
            await self._process.stop(_GRACE_SECONDS)
            self._process = None

    def suspend(self) -> None:
        """Suspend it, as a lack of memory does; its pods go on."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume it."""
        self._signal(signal.SIGCONT)

    def _signal(self, word: signal.Signals) -> None:
        if self._process is not None and self._process.running():
            os.killpg(self._process.pid, word)

    async def kill(self) -> None:
        """SIGKILL it, as the kernel does when memory is short."""
        if self._process is not None:
            self._process.kill()
            await self._process.stop(0.0)
            self._process = None


def _config(health_port: int, group: str) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "enableServer": False,  # the node's name cannot be resolved; container logs are read from the disk
        "healthzBindAddress": "127.0.0.1",
        "healthzPort": health_port,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{group}",
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,  # the host's packet filter is not ours
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "resolvConf": "/etc/resolv.conf",
        # A full disk of the host shall not evict the tests' pods.
        "evictionHard": {"memory.available": "1Mi", "nodefs.available": "1Mi", "imagefs.available": "1Mi"},
        "imageGCHighThresholdPercent": 100,
        # A prepare that failed is tried again with the next sync; at the default, 60 to 90 s later.
        "syncFrequency": "5s",
        "nodeStatusUpdateFrequency": "5s",
        "shutdownGracePeriod": "0s",
    }
