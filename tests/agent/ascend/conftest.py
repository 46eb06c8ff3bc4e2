from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.fakes.dcmi.host import lay_out
from testbed.fakes.dcmi.library import FakeDcmi
from tests.agent.ascend.nodes import MakeFake, Node, Nodes
from tests.agent.simulatednode import MakeNode, SimulatedNode


@pytest.fixture
def node_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nodes:
    """Make a node with chips of these models; one at a time."""
    monkeypatch.setenv(FakeDcmi.variable, "")
    FakeDcmi.build()
    # The machine that runs the tests may have an npu-smi of its own.
    monkeypatch.setenv("PATH", "")
    made = iter(range(100))

    def make(models: Sequence[str] = ("910B4",), *, recover: bool = False, mounted: bool = False) -> Node:
        folder = tmp_path / str(next(made))
        folder.mkdir()
        fake = FakeDcmi.create(
            folder / "dcmi", models, recovery=folder / "vnpu.cfg", recover=recover, mounted=mounted
        )
        fake.preload()
        return Node(fake, lay_out(fake, folder / "root"))

    return make


@pytest.fixture
def node(node_with: Nodes) -> Node:
    """Give a node with two 910B4."""
    return node_with(["910B4", "910B4"])


@pytest.fixture
def faked(make_node: MakeNode, monkeypatch: pytest.MonkeyPatch) -> MakeFake:
    """Make a node whose agent processes find the fake driver."""

    @asynccontextmanager
    async def make(
        *models: str, recover: bool = False, mounted: bool = False
    ) -> AsyncIterator[tuple[SimulatedNode, FakeDcmi]]:
        async with make_node() as node:
            fake = FakeDcmi.create(
                node.folder / "dcmi",
                models,
                recovery=node.folder / "vnpu.cfg",
                recover=recover,
                mounted=mounted,
            )
            for name, value in fake.environment.items():
                monkeypatch.setenv(name, value)
            node.options = replace(
                node.options, backend="ascend", host_root=lay_out(fake, node.folder / "root")
            )
            yield node, fake

    return make
