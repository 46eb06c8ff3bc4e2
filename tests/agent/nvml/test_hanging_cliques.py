"""A GPU that hangs on the question which clique it is in: the channels of its node are those of the others' clique."""

import asyncio

from apportion.agent.devices.cardcalls import CardCalls
from apportion.agent.devices.hardware import Hardware
from apportion.agent.devices.imex.backend import CHANNEL, ImexBackend
from apportion.agent.devices.nvml.backend import NvmlBackend
from tests.agent.nvml.nodes import Node
from tests.agent.nvml.test_fabric import CLUSTER, COMPLETED

DEADLINE = 0.5
"""Seconds."""


async def test_a_gpu_that_hangs_keeps_nobody_from_the_channels(node: Node) -> None:
    """No channel was found for as long as it did, and the agent counted as starting: no update of agents went on."""
    for gpu in range(2):
        node.fake.fabric(gpu, COMPLETED, clique=7, cluster=CLUSTER)
    driver = NvmlBackend(node.root, calls=CardCalls(DEADLINE))
    driver.devices()
    node.fake.hang("nvmlDeviceGetGpuFabricInfoV", card=0)
    hardware = Hardware([ImexBackend(node.root, 2, driver.cliques)], patience=4 * DEADLINE)
    try:
        async with asyncio.timeout(20):
            found = await hardware.discover()
    finally:
        node.fake.drop_rules()
    assert [card.kind for card in found.values()] == [CHANNEL, CHANNEL]
    assert hardware.failures == ()
