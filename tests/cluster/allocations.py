"""An allocation of one card."""

from apportion.dra.allocation import Allocation, DeviceResult
from apportion.dra.device import DeviceId
from apportion.dra.selection import NodeSelector
from tests.world import GPU

CARD = DeviceId(GPU, "n1", "gpu-0")


def allocation_of_card() -> Allocation:
    return Allocation((DeviceResult("gpu", CARD),), node_selector=NodeSelector.of_name("n1"))
