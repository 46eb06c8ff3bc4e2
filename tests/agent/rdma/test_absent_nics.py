"""The NIC of a claim is not there when its pod's sandbox begins: an agent has started anew while its driver is loaded again."""

from pathlib import Path

import pytest

from apportion.agent.devices.rdma.away import AwayFolder
from apportion.agent.network.moves import Moves
from apportion.agent.network.namespaces import Namespaces
from apportion.agent.network.nri import Sandbox
from apportion.agent.network.podnetworks import PodNetworks
from apportion.agent.rows import NetworkRow
from apportion.errors import NotReady
from tests.agent.lifecycle.onecard import one_card
from tests.agent.places import GPU, H100, MakeBackend


async def test_a_nic_that_is_not_there_keeps_its_pod_from_starting_and_nobody_else(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """The runtime gets an answer, and the interfaces of other pods follow their sandboxes."""

    async def addresses() -> frozenset[str]:
        return frozenset()

    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        node.prepared("c", "gpu-0")
        row = NetworkRow("c", GPU, "nic-gone", "nic-gone", "p", "eth9", "{}")
        node.context.journal.put_network(row)
        networks = PodNetworks(
            node.context,
            Moves(Namespaces(tmp_path, tmp_path / "pins"), tmp_path, node.context.at),
            tmp_path / "interfaces",
            AwayFolder(tmp_path / "away"),
            node_addresses=addresses,
            connected=lambda: True,
        )
        sandbox = Sandbox("p", "default/p", "/proc/self/ns/net")
        with pytest.raises(NotReady, match="nic-gone is not on this node"):
            await networks.began(sandbox)
        await networks.compare([sandbox])
        assert node.context.journal.networks() == (row,)
