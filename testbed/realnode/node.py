"""A real node: containerd and kubelet in a cell, joined to a control plane.

In: a control plane, a name. Out: a Ready Node that runs containers; at the end no process, mount, control group or file of it
is left, also when the test was killed (then the next start cleans up).
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
from testbed.errors import ApiError, TestbedError
from testbed.eventually import eventually
from testbed.realnode import cgroups, records
from testbed.realnode.cell import Cell
from testbed.realnode.containerd import Containerd
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
        self.cell: Cell
        self.containerd: Containerd
        self.kubelet: Kubelet

    async def __aenter__(self) -> Self:
        """Start it. Raises OSError or TestbedError; then nothing of it is left."""
        await records.sweep()
        folder = Path(tempfile.mkdtemp(prefix="apportion-node-"))
        self.cell = Cell(folder, folder.name)
        self.containerd = Containerd(self.cell, self._binaries)
        config = self.cluster.client_kubeconfig(f"system:node:{self.name}", ["system:nodes"])
        self.kubelet = Kubelet(self.cell, self._binaries, name=self.name, kubeconfig=config)
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
        """End everything and take the Node away."""
        await self._end()
        await self.cluster.api.delete(f"/api/v1/nodes/{self.name}")

    async def boot(self) -> None:
        """Start cell, containerd and kubelet."""
        await self.cell.start()
        self._record()
        await self.containerd.start()
        await self.kubelet.start()

    async def power_cut(self) -> None:
        """Take the power: all processes are gone, and what was in memory only; `boot` starts it again, under a new boot id."""
        await self.cell.stop()
        await self.containerd.stop()
        await self.kubelet.stop()
        shutil.rmtree(self.cell.run)

    async def ready(self) -> Json:
        """Wait until the Node is Ready, and return it."""

        async def node() -> Json:
            try:
                return await self.cluster.api.get(f"/api/v1/nodes/{self.name}")
            except ApiError as error:
                if error.status == 404:
                    return {}
                raise

        def fine(found: Json) -> bool:
            conditions = found.get("status", {}).get("conditions", ())
            return any(row["type"] == "Ready" and row["status"] == "True" for row in conditions)

        return await eventually(node, fine, within=_READY_SECONDS)

    def output(self, pod: Json, container: str = "main") -> list[str]:
        """Return what a pod's container has printed, all its runs; read from the node's disk."""
        metadata = pod["metadata"]
        place = f"{metadata['namespace']}_{metadata['name']}_{metadata['uid']}"
        files = sorted(
            (self.cell.pod_logs / place / container).glob("*.log"), key=lambda file: int(file.stem)
        )
        lines = (line for file in files for line in file.read_text(errors="replace").splitlines())
        return [found[1] for found in map(_LOG_LINE.match, lines) if found is not None]

    def processes(self) -> set[int]:
        """Return the ids of all processes of the node's pods."""
        return cgroups.processes(self.cell.group)

    def _record(self) -> None:
        if self.cell.init is None:
            raise TestbedError("the node does not run")
        group, folder = self.cell.group, str(self.cell.folder)
        records.save(records.Record(records.this_process(), self.cell.init, group, folder))

    async def _end(self) -> None:
        # Shielded: a second Ctrl-C must not leave half of it.
        await asyncio.shield(self._really_end())

    async def _really_end(self) -> None:
        await self.kubelet.stop()
        await self.cell.stop()
        await self.containerd.stop()
        shutil.rmtree(self.cell.folder, ignore_errors=True)
        records.forget(self.cell.group)
