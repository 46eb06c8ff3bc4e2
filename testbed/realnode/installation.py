"""The whole product with one real node: control plane, manifests, operator, kubelet, containerd, agent, fake accelerators.

In: models of the node's cards. Out: an installation that runs pods; `left()` returns what found_by_kind of them, read from disk, API and
hardware without the product's code.
"""

import shutil
import sqlite3
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from testbed.api import Json
from testbed.binaries import Binaries, provide
from testbed.controlplane import ControlPlane
from testbed.eventually import eventually
from testbed.installation import NAMESPACE, Installation
from testbed.realnode.agent import NodeAgent
from testbed.realnode.hardware import Hardware, NodeCards
from testbed.realnode.machinecards import MachineCards
from testbed.realnode.node import RealNode
from testbed.smalldisk import SmallDisk, small_disk
from testbed.versions import NODE

PARTITIONS: Final = "/apis/apportion.dev/v1alpha1/partitions"
SLICES: Final = "/apis/resource.k8s.io/v1/resourceslices"
POLICIES: Final = "/apis/apportion.dev/v1alpha1/allocationpolicies"
_TABLES = ("partitions", "claims")


class RealNodeInstallation:
    """`async with RealNodeInstallation() as installation:` starts everything, waits for the node's slices, and ends it."""

    def __init__(
        self,
        *,
        gpus: tuple[str, ...] = ("H100-80GB",),
        npus: tuple[str, ...] = ("910B4",),
        name: str = "real",
        small_disk: bool = False,
        machine_cards: bool = False,
        binaries: Binaries | None = None,
        programs: Binaries | None = None,
    ) -> None:
        """`binaries` are those of the control plane, `programs` those of the node; they are looked for if not given.

        `small_disk`: the agent's journal is on a disk of its own, which can be filled. `machine_cards`: the cards are those of this machine.
        """
        self.name = name
        self.agents: list[NodeAgent] = []
        self.cluster = ControlPlane(binaries=binaries)
        self.node: RealNode
        self.hardware: Hardware
        """The fake cards; not there with those of the machine."""
        self._cards: NodeCards
        self.product: Installation
        self._gpus = gpus
        self._npus = npus
        self._programs = programs
        self._small_disk = small_disk
        self._machine_cards = machine_cards
        self.disk: SmallDisk | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Start everything; when that fails, nothing is left. Raises OSError or TestbedError."""
        try:
            enter = self._stack.enter_async_context
            programs = self._programs or await provide(names=NODE)
            await enter(self.cluster)
            self.product = await enter(Installation(self.cluster, [], agents=False))
            # Operator and agent run as processes: the node reaches no registry with their image.
            await self.cluster.kubectl("delete", "-n", NAMESPACE, "deployments,daemonsets", "--all")
            self.node = RealNode(self.cluster, self.name, programs)
            # The node cannot remove it while a disk is mounted in it.
            self._stack.callback(shutil.rmtree, self.node.host.folder, ignore_errors=True)
            if self._small_disk:
                folder = self.node.host.library("apportion")
                folder.mkdir(parents=True)
                self.disk = self._stack.enter_context(small_disk(folder, megabytes=16))
            await enter(self.node)
            if self._machine_cards:
                self._cards = MachineCards()
            else:
                self._cards = self.hardware = Hardware(self.node.host, gpus=self._gpus, npus=self._npus)
            await self.agent()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End everything."""
        await self._stack.aclose()

    async def agent(self, instance: str = "", *, contained: bool = False) -> NodeAgent:
        """Start an agent (one more) on the node, and wait until it serves; `contained` as in `NodeAgent`."""
        agent = NodeAgent(self.node, self._cards, instance=instance, contained=contained)
        self._stack.push_async_callback(agent.stop)
        await agent.start()
        self.agents.append(agent)
        return agent

    async def power_cut(self) -> None:
        """Cut the node's power: every process ends, /run is empty, the cards lose their partitions."""
        await self.node.power_cut()
        for agent in self.agents:
            await agent.stop()
        self.agents.clear()
        self._cards.reboot()

    async def power_on(self) -> None:
        """Boot the node, and start its agent."""
        await self.node.boot()
        await self.agent()

    async def exchange_cards(self, *, gpus: tuple[str, ...] = (), npus: tuple[str, ...] = ()) -> None:
        """Give the node other cards, and run its agent in a container; no pod may have a device."""
        while self.agents:
            await self.agents.pop().stop()
        self._cards = self.hardware = Hardware(self.node.host, gpus=gpus, npus=npus)
        await self.agent(contained=True)

    @property
    def logs(self) -> list[Path]:
        """The log of each program: those of the node, agents among them, and the operators'."""
        return [*self.node.host.folder.glob("*.log"), *self.product.logs]

    async def slices(self) -> list[Json]:
        """Return the node's slices."""
        found, _ = await self.cluster.api.items(SLICES, fieldSelector=f"spec.nodeName={self.name}")
        return found

    async def partitions(self) -> list[Json]:
        """Return all Partition objects."""
        found, _ = await self.cluster.api.items(PARTITIONS)
        return found

    async def label_node(self, key: str, value: str) -> None:
        """Label the Node."""
        await self.cluster.api.patch(f"/api/v1/nodes/{self.name}", {"metadata": {"labels": {key: value}}})

    async def taints(self, device: str) -> set[str] | None:
        """Return the keys of a device's taints, None while it is not published."""
        for each in await self.slices():
            for found in each["spec"].get("devices", ()):
                if found["name"] == device:
                    return {taint["key"] for taint in found.get("taints", ())}
        return None

    def cdi(self) -> list[str]:
        """Return the names of the CDI files on the node."""
        return sorted(path.name for path in (self.node.host.run / "cdi").glob("*"))

    def journal(self) -> dict[str, list[tuple[str, ...]]]:
        """Return the rows of the agent's journal by table: name and step."""
        path = self.node.host.library("apportion") / "journal.db"
        base = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            return {
                table: base.execute(f"SELECT name, step FROM {table}").fetchall()  # noqa: S608 - two constants
                for table in _TABLES
            }
        finally:
            base.close()

    async def left(self, *, warm: bool) -> dict[str, object]:
        """Return what claims have left on the node; with `warm`, partitions that nobody holds do not count."""
        partitions = await self.partitions()
        rows = self.journal()
        found_by_kind: dict[str, object] = {
            "CDI files": self.cdi(),
            "claims in the journal": rows["claims"],
            "Partitions": [
                each["metadata"]["name"] for each in partitions if not warm or not _is_let_go(each)
            ],
            "partitions on the hardware": [] if warm else self._cards.partitions(),
            "partitions in the journal": [] if warm else rows["partitions"],
            "processes": sorted(self.node.processes()),
        }
        return {what: found for what, found in found_by_kind.items() if found}

    async def keep_nothing_warm(self) -> None:
        """Create a policy by which partitions are removed as soon as they are idle."""
        kinds = ("gpu", "mig", "npu", "vnpu")
        spec = {
            "deviceClasses": {"names": [f"{kind}.apportion.dev" for kind in kinds]},
            "partitions": {"idleTimeout": "0s"},
        }
        policy = {
            "apiVersion": "apportion.dev/v1alpha1",
            "kind": "AllocationPolicy",
            "metadata": {"name": "nothing-warm"},
            "spec": spec,
        }
        await self.cluster.api.create(POLICIES, policy)
        await eventually(
            lambda: self.cluster.api.get(f"{POLICIES}/nothing-warm"),
            lambda found: found.get("status", {}).get("managedClasses"),
        )

    async def nothing_left(self, *, warm: bool, within: float = 30.0) -> None:
        """Wait until nothing is left. Raises NotReadyInTimeError with what is."""
        await eventually(lambda: self.left(warm=warm), lambda found: not found, within=within)


def _is_let_go(partition: Json) -> bool:
    """Say whether nobody holds a partition, and its agent has seen that: while it is Ready, the next claim is served by another one that is cut for it."""
    return not partition["spec"].get("holder") and partition.get("status", {}).get("phase") != "Ready"
