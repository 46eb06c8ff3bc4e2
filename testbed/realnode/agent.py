"""The agent on a real node: on the node's isolated host, with the paths of production and the token of its ServiceAccount."""

import asyncio
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

from testbed.controlplane import ControlPlane
from testbed.errors import NotReadyInTimeError
from testbed.installation import NAMESPACE, product_environment
from testbed.ports import free_ports
from testbed.process import Process
from testbed.readiness import answers, until_ready
from testbed.realnode.hardware import NodeCards
from testbed.realnode.node import RealNode

_GRACE_SECONDS = 30.0  # terminationGracePeriodSeconds of the agent's pod
_CONTAINER = "apportion-agent"
_ENDS_SECONDS = 60.0
_LOOK_SECONDS = 0.1


class NodeAgent:
    """One agent process. `instance` is the pod's UID in production; "" leaves the option out.

    `contained`: it runs in a privileged container of the node's containerd, whose files are the node's.
    """

    def __init__(
        self, node: RealNode, cards: NodeCards, *, instance: str = "", contained: bool = False
    ) -> None:
        self._contained = contained
        self.log: Path = node.host.folder / f"agent{instance and '-'}{instance}.log"
        self.instance = instance
        self._node = node
        self._cards = cards
        self._process: Process | None = None

    async def start(self) -> None:
        """Start it, and wait until it serves kubelet and has published. Raises ComponentDiedError or NotReadyInTimeError."""
        cluster: ControlPlane = self._node.cluster
        token = await cluster.service_account_kubeconfig(NAMESPACE, "apportion-agent", node=self._node.name)
        [port] = free_ports(1)
        words: list[str | Path] = [
            *(sys.executable, "-m", "apportion", "agent", "--node-name", self._node.name),
            *self._cards.options,
            *("--kubeconfig", token, "--log-format", "console", "--health-port", str(port)),
            *(("--instance", self.instance) if self.instance else ()),
        ]
        environment = {**product_environment(), **self._cards.environment}
        if self._contained:
            words = self._node.containerd.container(_CONTAINER, words, environment)
        self._process = Process.start(
            "agent", self._node.host.command(*words), self.log, environment=environment
        )
        await until_ready(self._process, lambda: answers(f"http://127.0.0.1:{port}/readyz"))

    async def stop(self) -> None:
        """SIGTERM, and wait until it is gone."""
        if self._process is not None:
            await self._process.stop(_GRACE_SECONDS)
            self._process = None

    async def ended(self) -> None:
        """Wait until it has ended by itself, as it does to be started anew. Raises NotReadyInTimeError."""
        process, self._process = self._process, None
        end = time.monotonic() + _ENDS_SECONDS
        while process is not None and process.running():
            if time.monotonic() > end:
                self._process = process
                raise NotReadyInTimeError(f"the agent has not ended within {_ENDS_SECONDS:g} s")
            await asyncio.sleep(_LOOK_SECONDS)

    def open_files(self, prefix: str) -> list[str]:
        """Return which files whose names begin so its processes have open."""
        if self._process is None or not self._process.running():
            return []
        root = psutil.Process(self._process.pid)
        found: set[str] = set()
        for process in (root, *root.children(recursive=True)):
            for file in Path(f"/proc/{process.pid}/fd").iterdir():
                with suppress(OSError):
                    found.add(str(file.readlink()))
        return sorted(name for name in found if name.startswith(prefix))

    async def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            await self._process.stop(0.0)
            self._process = None
