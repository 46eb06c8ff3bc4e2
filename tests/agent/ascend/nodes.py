from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from apportion.agent.devices.ascend.backend import AscendBackend
from apportion.agent.devices.values import PartitionPlace, Placement
from testbed.fakes.dcmi.library import FakeDcmi
from tests.agent.simulatednode import SimulatedNode

MakeFake = Callable[..., AbstractAsyncContextManager[tuple[SimulatedNode, FakeDcmi]]]
Nodes = Callable[..., "Node"]
WANTED = PartitionPlace("npu-0", "vir05_1c_8g", Placement(103, 1))
"""On a 910B4; not the first id, so that nobody gets it by chance."""


class Node:
    """A fake driver, the host around it, and the backend in this process."""

    def __init__(self, fake: FakeDcmi, root: Path) -> None:
        self.fake = fake
        self.root = root
        self.backend = AscendBackend(root)
