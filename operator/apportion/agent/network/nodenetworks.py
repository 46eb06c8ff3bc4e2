"""The network devices of one node: their parts, wired.

In: where things are on the node. Out: pods' networks, what slices say of interfaces, and the connection to the container runtime.
"""

from pathlib import Path
from typing import Final

from apportion.agent.devices.rdma import sysfs
from apportion.agent.devices.rdma.away import AWAY, AwayFolder
from apportion.agent.devices.values import CardKind
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.network.moves import Moves
from apportion.agent.network.namespaces import Namespaces
from apportion.agent.network.nri import NriPlugin
from apportion.agent.network.offered import OfferedInterfaces
from apportion.agent.network.podnetworks import PodNetworks
from apportion.cluster.kinds import NODES

_MODES: Final = {
    "shared": "rdma system: shared: every container sees all RDMA devices of the node, and can open those that its claim has; a claim"
    " with NetworkConfig moves the interface, and the RDMA device stays with the host",
    "exclusive": "rdma system: exclusive: a container sees the RDMA devices in its pod's network only, where claims with NetworkConfig"
    " move them; the device files of other claims are of no use in a pod with a network of its own, unless: rdma system set netns shared",
    "": "",
}


class NodeNetworks:
    """`pods` serves prepare calls, `offered` slices, `runtime` hears of sandboxes."""

    def __init__(
        self, context: AgentContext, node: str, host_root: Path, run_dir: Path, *, socket: Path
    ) -> None:
        """`run_dir` is a folder whose mounts outlive the agent's container, `socket` the runtime's (NRI)."""

        async def node_addresses() -> frozenset[str]:
            found = await context.client.get(NODES, node)
            rows = (found.get("status") or {}).get("addresses") or ()
            return frozenset(row["address"] for row in rows)

        namespaces = Namespaces(host_root, run_dir / "namespaces")
        self._context = context
        self._root = host_root
        self.offered = OfferedInterfaces(context, namespaces.host, node_addresses)
        self.pods = PodNetworks(
            context,
            Moves(namespaces, host_root, context.at),
            run_dir / "interfaces",
            AwayFolder(run_dir / AWAY),
            node_addresses=node_addresses,
            connected=lambda: self.runtime.connected,
        )
        self.runtime = NriPlugin(
            socket,
            began=self.pods.began,
            creating=self.pods.creating,
            ending=self.pods.ending,
            running=self.pods.compare,
        )

    def mode(self) -> str:
        """Return whether RDMA devices go into pods, for people; "" on a node that has none, or where the kernel does not say."""
        nics = any(card.kind == CardKind.NIC for card in self._context.hardware.cards.values())
        return _MODES[sysfs.namespace_mode(self._root)] if nics else ""
