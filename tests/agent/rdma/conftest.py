from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.fakes.rdma import RdmaHost
from testbed.fakes.virtualfunctions import FILE, UNTOUCHED, FakeFunctions
from testbed.hostnetwork import unsupported
from tests.agent.rdma.networknode import NetworkNode, network_node
from tests.agent.simulatednode import MakeNode, SimulatedNode


@pytest.fixture(scope="session")
def interfaces() -> None:
    """Skip where no network interface can be made (no root, a kernel without veth)."""
    reason = unsupported()
    if reason:
        pytest.skip(reason)


@pytest.fixture
async def node(host: RdmaHost, make_node: MakeNode) -> AsyncIterator[SimulatedNode]:
    """Make a node with the NICs of a fake host, and run its agent."""
    nics = [{"name": "mlx5-0", "pcieRoot": "pci0000:9b", "numaNode": 1}]
    async with make_node(nics=nics) as made:
        made.options = replace(made.options, backend="rdma", host_root=host.root)
        async with made.agent():
            yield made


@pytest.fixture
async def rail(
    interfaces: None, make_node: MakeNode, namespace: str, tmp_path: Path
) -> AsyncIterator[NetworkNode]:
    """Make a node with a NIC whose interface is a real one."""
    async with network_node(make_node, namespace, tmp_path) as made:
        yield made


@pytest.fixture
async def function_rail(
    interfaces: None, make_node: MakeNode, namespace: str, tmp_path: Path
) -> AsyncIterator[tuple[NetworkNode, FakeFunctions]]:
    """Make a node with a NIC that is a virtual function: its interface is a real one, what its physical function says is not."""
    async with network_node(make_node, namespace, tmp_path, function=True) as made:
        functions = FakeFunctions(made.node.options.host_root / FILE)
        functions.make(made.network.peer, dict(UNTOUCHED))
        with functions.installed():
            yield made, functions
