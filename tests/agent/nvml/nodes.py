from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from apportion.agent.devices.nvml.backend import NvmlBackend
from testbed.fakes.nvml.library import FakeNvml
from tests.agent.simulatednode import SimulatedNode

MakeFake = Callable[..., AbstractAsyncContextManager[tuple[SimulatedNode, FakeNvml]]]
Nodes = Callable[..., "Node"]


class Node:
    """A fake driver, the host around it, and the backend in this process."""

    def __init__(self, fake: FakeNvml, root: Path) -> None:
        self.fake = fake
        self.root = root
        self.backend = NvmlBackend(root)

    def anew(self) -> NvmlBackend:
        """Close the backend, as an agent does that ends, and return that of the next agent."""
        self.backend.close()
        self.backend = NvmlBackend(self.root)
        return self.backend
