"""A GPU whose driver did not say whether it belongs to a fabric, and says then that it does not: it waits for none."""

from apportion.agent.devices.hardware import Hardware
from tests.agent.nvml.nodes import Node


async def test_a_gpu_that_turns_out_to_be_in_no_fabric_is_given_away_whole(node: Node) -> None:
    """A discovery found it out, and nobody asked it again: what was said of it before it answered stayed for ever."""
    node.fake.fail("nvmlDeviceGetGpuFabricInfoV", 999, times=-1, card=0)
    hardware = Hardware([node.backend])
    await hardware.discover()
    assert await hardware.fabric() == {"gpu-0": "Unknown"}
    node.fake.heal()
    await hardware.discover()
    assert await hardware.fabric() == {}
