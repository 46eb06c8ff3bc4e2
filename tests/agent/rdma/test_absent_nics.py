"""NICs that are not there: when the sandbox of a claim's pod begins, or when an agent starts and a later one comes."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from apportion.agent.network.nri import Sandbox
from apportion.agent.rows import NetworkRow
from apportion.errors import NotReady
from testbed.fakes.rdma import RdmaHost
from tests.agent.lifecycle.onecard import one_card
from tests.agent.places import GPU, H100, RDMA, MakeBackend
from tests.agent.rdma.podnetworksbelow import pod_networks
from tests.agent.simulatednode import MakeNode


async def test_a_nic_that_is_not_there_keeps_its_pod_from_starting_and_nobody_else(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """The runtime gets an answer, and the interfaces of other pods follow their sandboxes."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        node.prepared("c", "gpu-0")
        row = NetworkRow("c", GPU, "nic-gone", "nic-gone", "p", "eth9", "{}")
        node.context.journal.put_network(row)
        networks = pod_networks(tmp_path, node.context)
        sandbox = Sandbox("p", "default/p", "/proc/self/ns/net")
        with pytest.raises(NotReady, match="nic-gone is not on this node"):
            await networks.began(sandbox)
        await networks.compare([sandbox])
        assert node.context.journal.networks() == (row,)


async def test_the_first_nic_of_a_node_that_once_had_one_starts_the_agent_anew(
    tmp_path: Path, make_node: MakeNode
) -> None:
    """Its driver is served meanwhile; what a node with NICs does besides, as to give pods their interfaces, begins at the start."""
    host = RdmaHost(tmp_path / "root")
    host.add("mlx5_0", "0000:9d:00.0")
    async with make_node(nics=[{"name": "mlx5-0", "pcieRoot": "pci0000:9b"}]) as node:
        node.options = replace(node.options, backend="rdma", host_root=host.root)
        async with node.agent():
            host.remove("mlx5_0")

        async def arrives() -> None:
            async with node.agent(), asyncio.timeout(30):
                assert (await node.registered(RDMA)).name == RDMA
                host.add("mlx5_0", "0000:9d:00.0")
                while (node.options.registry_dir / f"{RDMA}-reg.sock").exists():  # noqa: ASYNC110 - no event tells of it
                    await asyncio.sleep(0.05)

        with pytest.raises(NotReady, match="the agent starts anew to serve its cards"):
            await arrives()
