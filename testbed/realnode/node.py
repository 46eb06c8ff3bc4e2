"""A real node: containerd and kubelet on an isolated host, joined to a control plane.

In: a control plane, a name. Out: a Ready Node that runs containers; at the end no process, mount, control group or file of it
is left; when the test was killed, the next start cleans up.
"""

import asyncio
import re
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from testbed.api import Json
from testbed.binaries import Binaries
from testbed.controlplane import ControlPlane
from testbed.errors import TestbedError
from testbed.eventually import eventually
from testbed.realnode import cgroups, records
from testbed.realnode.containerd import Containerd
from testbed.realnode.isolatedhost import IsolatedHost
from testbed.realnode.kubelet import Kubelet

_READY_SECONDS = 60.0
# "<time> <stream> <F or P> <text>": the log format of the container runtime interface.
_LOG_LINE = re.compile(r"\S+ (?:stdout|stderr) [FP] ?(.*)")


class RealNode:
    """`async with RealNode(cluster, "node-a", binaries) as node:` starts it, waits until it is Ready, and ends it."""

    def __init__(self, cluster: ControlPlane, name: str, binaries: Binaries) -> None:
        """`binaries` are those of `testbed.versions.NODE`."""
        self.cluster = cluster
        self.name = name
        self._binaries = binaries
        folder = Path(tempfile.mkdtemp(prefix="apportion-node-"))
        self.host = IsolatedHost(folder, folder.name)
        self.containerd: Containerd
        self.kubelet: Kubelet

    async def __aenter__(self) -> Self:
        """Start it. Raises OSError or TestbedError; then nothing of it is left."""
        await records.sweep()
        self.containerd = Containerd(self.host, self._binaries)
        config = self.cluster.client_kubeconfig(f"system:node:{self.name}", ["system:nodes"])
        self.kubelet = Kubelet(self.host, self._binaries, name=self.name, kubeconfig=config)
        try:
            await self.boot()
            await self.ready()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End everything and delete the Node."""
        await self._end()
        await self.cluster.api.delete(f"/api/v1/nodes/{self.name}")

    async def boot(self) -> None:
        """Start host, containerd and kubelet."""
        await self.host.start()
        self._record()
        await self.containerd.start()
        await self.kubelet.start()

    async def power_cut(self) -> None:
        """Cut the power: processes and /run are lost; `boot` starts it again with a new boot id."""
        await self.host.stop()
        await self.containerd.stop()
        await self.kubelet.stop()
        shutil.rmtree(self.host.run)

    async def ready(self) -> Json:
        """Wait until the Node is Ready, and return it."""

        async def node() -> Json:
            return await self.cluster.api.find(f"/api/v1/nodes/{self.name}") or {}

        def fine(found: Json) -> bool:
            conditions = found.get("status", {}).get("conditions", ())
            return any(row["type"] == "Ready" and row["status"] == "True" for row in conditions)

        return await eventually(node, fine, within=_READY_SECONDS)

    def output(self, pod: Json, container: str = "main") -> list[str]:
        """Return what a pod's container has printed, all its runs; read from the node's disk."""
        metadata = pod["metadata"]
        place = f"{metadata['namespace']}_{metadata['name']}_{metadata['uid']}"
        files = sorted(
            (self.host.pod_logs / place / container).glob("*.log"), key=lambda file: int(file.stem)
        )
        lines = (line for file in files for line in file.read_text(errors="replace").splitlines())
        return [found[1] for found in map(_LOG_LINE.match, lines) if found is not None]

    def processes(self) -> set[int]:
        """Return the ids of all processes of the node's pods."""
        return cgroups.processes(self.host.group)

    def _record(self) -> None:
        if self.host.init is None:
            raise TestbedError("the node does not run")
        group, folder = self.host.group, str(self.host.folder)
        records.save(records.Record(records.this_process(), self.host.init, group, folder))

    async def _end(self) -> None:
        # Shielded: a second Ctrl-C must not leave half of it.
        await asyncio.shield(self._stop_all())

    async def _stop_all(self) -> None:
        await self.kubelet.stop()
        await self.host.stop()
        await self.containerd.stop()
        shutil.rmtree(self.host.folder, ignore_errors=True)
        records.forget(self.host.group)
