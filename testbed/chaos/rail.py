"""The rail of a chaos node: a NIC with a real network interface, the container runtime's side of it, and the pod that has it.

In: a network interface of this machine. Out: pods that begin and end as under kubelet and containerd, and where the interface is.
"""

import shutil
import subprocess
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, Final

from apportion.agent.slices.succession import PUBLISHERS
from testbed.api import Json
from testbed.chaos.invariants import PodInterface
from testbed.fakes.rdma import RdmaHost
from testbed.hostnetwork import HostNetwork, host_network, seen, unmount_below
from testbed.runtimehand import RuntimeHand

NIC: Final = "nic-mlx5-0"
_NAME: Final = "net1"
"""The interface's name in pods."""
_OTHERS: Final = frozenset({"setups", PUBLISHERS})
"""Folders of /run in which nothing is of interfaces."""


class Rail:
    """That of one node: `claim` is the one that has the NIC, `running` says whether its pod's container has started."""

    def __init__(self, network: HostNetwork, folder: Path, root: Path) -> None:
        self._network = network
        self._before = network.on_host()
        self.run_dir = folder / "run"
        self.nri_socket = folder / "nri.sock"
        self.runtime = RuntimeHand()
        self.claim: Json | None = None
        self.pod = ""
        """UID of the claim's pod."""
        self.running = False
        self._namespace = ""
        RdmaHost(root).add("mlx5_0", "0000:9d:00.0", link="Ethernet", interface=network.name)

    @property
    def options(self) -> dict[str, Path]:
        """The agent's options for it."""
        return {"nri_socket": self.nri_socket}

    @staticmethod
    def parameters(random: Random) -> Json:
        """Return what a claim asks for."""
        config: Json = {"apiVersion": "config.apportion.dev/v1alpha1", "kind": "NetworkConfig"}
        return {**config, "interface": {"name": _NAME, "mtu": random.choice((1300, 1410))}}

    async def begin_sandbox(self) -> str:
        """Begin the pod's sandbox, if it has none; returns why it cannot."""
        if self._namespace:
            return ""
        name, path = self._network.pod()
        self._namespace = name
        try:
            why = await self.runtime.begin(self.pod, path)
        except TimeoutError:
            why = "the plugin does not answer"
        if why and self._namespace == name:
            self._end_namespace()
        return why

    async def end_sandbox(self) -> None:
        """Stop the pod's container and end its sandbox: the runtime's plugins hear of it, if there are any, and then its network ends."""
        self.running = False
        if self.pod in self.runtime.sandboxes:
            with suppress(TimeoutError):
                await self.runtime.end(self.pod)
        self._end_namespace()

    async def start_container(self, file: Json) -> str:
        """Start a container with this CDI file, of which its plugins hear; returns why it does not start."""
        mounts = [mount["hostPath"] for mount in file["devices"][0]["containerEdits"]["mounts"]]
        own = [path for path in mounts if Path(path).is_relative_to(self.run_dir)]
        if self.pod not in self.runtime.sandboxes:
            return "the pod has no sandbox"
        try:
            why = await self.runtime.create(self.pod, *own)
        except TimeoutError:
            return "the plugin does not answer"
        missing = _missing(own)
        self.running = bool(self._namespace) and not why and not missing
        return why or ", ".join(f"{path} is not there" for path in missing)

    def reboot(self) -> None:
        """End every pod; the NIC comes up as the host sets it up, and /run is empty."""
        self.running = False
        self.runtime.sandboxes.clear()
        unmount_below(self.run_dir)
        shutil.rmtree(self.run_dir, ignore_errors=True)
        self._end_namespace()
        self._network.replug(self._before["mac"])

    def observe(self) -> PodInterface:
        """Return where the interface is now."""
        inside = _look(_NAME, self._namespace) if self._namespace else {}
        files = [
            path.name
            for path in self.run_dir.rglob("*")
            if path.is_file() and _OTHERS.isdisjoint(path.relative_to(self.run_dir).parts)
        ]
        return PodInterface(
            claim=self.claim["metadata"]["uid"] if self.claim else "",
            running=self.running,
            in_pod=bool(inside) and _same(inside, self._before),
            on_host=_look(self._network.name) == self._before,
            left=tuple(sorted(files)),
        )

    def _end_namespace(self) -> None:
        name, self._namespace = self._namespace, ""
        if name:
            self._network.end(name)


def _missing(paths: Iterable[str]) -> list[str]:
    return [path for path in paths if not Path(path).exists()]


def _look(name: str, namespace: str = "") -> dict[str, Any]:
    """Return how an interface is, {} if it is not there, or goes while it is looked at."""
    try:
        return seen(name, namespace)
    except subprocess.CalledProcessError:
        return {}


def _same(inside: dict[str, Any], before: dict[str, Any]) -> bool:
    """Say whether an interface in a pod is that of the host, set up and up."""
    return bool(inside["up"]) and all(inside[key] == before[key] for key in ("mac", "addresses", "routes"))


@asynccontextmanager
async def rail(folder: Path, root: Path) -> AsyncIterator[Rail]:
    """Make one in a node's folder; `root` stands for its `/`. Afterwards nothing of it is left on this machine."""
    with host_network() as network:
        made = Rail(network, folder, root)
        try:
            async with made.runtime.serving(made.nri_socket):
                yield made
        finally:
            unmount_below(made.run_dir)
            shutil.rmtree(made.run_dir, ignore_errors=True)
