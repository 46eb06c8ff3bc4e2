"""The networks of a node without a node: what pods get of its NICs, with all files below a folder."""

from pathlib import Path

from apportion.agent.devices.rdma.away import AwayFolder
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.network.moves import Moves
from apportion.agent.network.namespaces import Namespaces
from apportion.agent.network.podnetworks import PodNetworks


def pod_networks(folder: Path, context: AgentContext) -> PodNetworks:
    """Return them; the runtime is connected, and the node has no address."""

    async def addresses() -> frozenset[str]:
        return frozenset()

    return PodNetworks(
        context,
        Moves(Namespaces(folder, folder / "pins"), folder, context.at),
        folder / "interfaces",
        AwayFolder(folder / "away"),
        node_addresses=addresses,
        connected=lambda: True,
    )
