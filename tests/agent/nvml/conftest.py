from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pynvml
import pytest

from testbed.fakes.nvml.host import lay_out
from testbed.fakes.nvml.library import FakeNvml
from tests.agent.nvml.nodes import MakeFake, Node, Nodes
from tests.agent.simulatednode import MakeNode, SimulatedNode


@pytest.fixture
def node_with(tmp_path: Path) -> Iterator[Nodes]:
    """Make a node with GPUs of these models; one at a time."""
    made: list[Node] = []

    def make(models: Sequence[str] = ("H100-80GB",), *, mig: bool = False) -> Node:
        for old in made:
            old.backend.close()
        folder = tmp_path / str(len(made))
        folder.mkdir()
        fake = FakeNvml.create(folder / "nvml", models, mig=mig)
        fake.preload()
        made.append(Node(fake, lay_out(fake, folder / "root")))
        return made[-1]

    yield make
    for node in made:
        node.fake.drop_rules()
        node.backend.close()
    # A session that a test left open would show its fake to the next test.
    with suppress(pynvml.NVMLError):
        while True:
            pynvml.nvmlShutdown()


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
