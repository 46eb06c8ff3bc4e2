"""A control plane with nodes, slices and one allocator, ready for the first pod.

In: the allocator (`Who`), a workload. Out: namespaces to make pods in, and the
processes that work for them. Everything is new for each run, and ended after it.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from apportion.api.contract import MANAGED
from apportion.cluster.kinds import NODES, SLICES
from bench.endtoend.workload import Who, Workload
from bench.h100node import SIMULATION
from bench.operatorprobe import OperatorProbe
from bench.usage import settled
from testbed.api import Api, Json
from testbed.beside import beside
from testbed.binaries import Binaries
from testbed.controlplane import ControlPlane
from testbed.installation import MANIFESTS, Installation
from testbed.node import NodeObject, NodeShape
from testbed.partitionresponder import PartitionResponder
from testbed.publishedslices import published_slices
from testbed.supervised import Supervised

OPERATOR: Final = "operator"
_TOGETHER: Final = 16
"""Requests in flight while nodes and slices are made."""
_ACTING_SECONDS: Final = 300.0
_DEPLOYED: Final = ("--log-format", "json")
"""As the manifests have it; lines for people take longer to write."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """One control plane, prepared."""

    control_plane: ControlPlane
    who: Who
    slices: int
    """How many ResourceSlices there are."""
    operator: Supervised | None = None
    probe: OperatorProbe | None = None
    """Asks the operator."""

    @property
    def pids(self) -> Mapping[str, int]:
        """The processes that work for the pods, by name."""
        found = {name: process.pid for name, process in self.control_plane.processes.items()}
        if self.operator is not None and self.operator.pid is not None:
            found[OPERATOR] = self.operator.pid
        return found

    async def namespace(self, workload: Workload) -> str:
        """Make a namespace with the workload's template; returns its name."""
        labels = {MANAGED: "true"} if self.who is Who.OURS else None
        name = await self.control_plane.make_namespace("bench", labels)
        path = f"/apis/resource.k8s.io/v1/namespaces/{name}/resourceclaimtemplates"
        await self.control_plane.api.create(path, workload.template())
        return name


@asynccontextmanager
async def prepared(
    who: Who, workload: Workload, binaries: Binaries, *, manifests: Path = MANIFESTS
) -> AsyncIterator[Cluster]:
    """Start everything, wait until nothing is busy, and end everything.

    Informers and watches are full then, as in a cluster that has been running for a while. `manifests`: what is installed of ours. Raises TestbedError, or TimeoutError
    when the operator does not act within five minutes.
    """
    async with AsyncExitStack() as stack:
        control_plane = await stack.enter_async_context(ControlPlane(binaries=binaries))
        ours = who is Who.OURS
        if not ours:
            await control_plane.kubectl("apply", "-f", str(MANIFESTS / "base" / "device-classes.yaml"))
        slices = await _publish(control_plane, workload, guard=ours)
        operator = probe = None
        if ours:
            deployed = Installation(
                control_plane, (), agents=False, operator_options=_DEPLOYED, manifests=manifests
            )
            installation = await stack.enter_async_context(deployed)
            operator = installation.operators[0]
            probe = OperatorProbe(installation.operator_ports[0])
            await probe.acting(_ACTING_SECONDS)
            # A user of its own in the audit log.
            agents = Api.of(control_plane.client_kubeconfig("agents", ["system:masters"]))
            await stack.enter_async_context(agents)
            await stack.enter_async_context(beside(PartitionResponder(agents).run()))
        cluster = Cluster(control_plane, who, slices, operator, probe)
        await settled(cluster.pids)
        yield cluster


async def _publish(control_plane: ControlPlane, workload: Workload, *, guard: bool) -> int:
    """Make the Nodes and their slices; returns the number of slices."""
    api, slots = control_plane.api, asyncio.Semaphore(_TOGETHER)

    async def make(shape: NodeShape) -> None:
        async with slots:
            await NodeObject(api, shape, control_plane.version).refresh()

    async def publish(node: Json) -> int:
        metadata = node["metadata"]
        name, uid = metadata["name"], metadata["uid"]
        slices = published_slices(SIMULATION, name, uid, guard=guard, sharing=workload.sharing)
        async with slots:
            for each in slices:
                await api.create(SLICES.path(), each)
        return len(slices)

    await asyncio.gather(*(make(shape) for shape in workload.shapes()))
    nodes, _ = await api.items(NODES.path())
    return sum(await asyncio.gather(*(publish(node) for node in nodes)))
