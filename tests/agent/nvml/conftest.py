from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pynvml
import pytest

from testbed.fakes.nvml.host import lay_out
from testbed.fakes.nvml.library import FakeNvml
from tests.agent.nvml.nodes import Node, Nodes


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
        node.backend.close()
    # A session that a test left open would show its fake to the next test.
    with suppress(pynvml.NVMLError):
        while True:
            pynvml.nvmlShutdown()


@pytest.fixture
def node(node_with: Nodes) -> Node:
    """Give a node with two H100."""
    return node_with(["H100-80GB", "H100-80GB"])
