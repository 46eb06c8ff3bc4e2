from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from testbed.fakes.nvml.host import lay_out
from testbed.fakes.nvml.library import FakeNvml
from tests.agent.nvml.nodes import MakeFake, Node, Nodes
from tests.agent.simulatednode import MakeNode, SimulatedNode


@pytest.fixture
def node_with(make_gpus: Nodes) -> Nodes:
    """Make a node with GPUs of these models; one at a time."""
    return make_gpus


@pytest.fixture
def node(node_with: Nodes) -> Node:
    """Give a node with two H100."""
    return node_with(["H100-80GB", "H100-80GB"])


@pytest.fixture
def faked(make_node: MakeNode, monkeypatch: pytest.MonkeyPatch) -> MakeFake:
    """Make a node whose agent processes find the fake driver."""

    @asynccontextmanager
    async def make(*models: str) -> AsyncIterator[tuple[SimulatedNode, FakeNvml]]:
        async with make_node() as node:
            fake = FakeNvml.create(node.folder / "nvml", models or ["H100-80GB"])
            for name, value in fake.environment.items():
                monkeypatch.setenv(name, value)
            node.options = replace(
                node.options, backend="nvml", host_root=lay_out(fake, node.folder / "root")
            )
            yield node, fake

    return make
