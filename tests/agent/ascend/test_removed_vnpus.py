"""A vNPU that is removed while its chip is looked at is not in the answer, and says nothing of the chip."""

import asyncio

from apportion.agent.devices.hardware import Hardware
from apportion.agent.devices.values import Health, PartitionPlace, Placement
from tests.agent.ascend.nodes import WANTED, Nodes


async def test_a_chip_is_well_whose_vnpu_goes_between_two_calls(node_with: Nodes) -> None:
    """The driver says that there is no such device, which passed for the chip: the pods of its other vNPUs were evicted."""
    chips = node_with()
    stays = chips.backend.create(PartitionPlace(WANTED.card, WANTED.profile, Placement(100, 1)))
    goes = chips.backend.create(WANTED)
    hardware = Hardware([chips.backend], patience=60)
    await hardware.discover()
    chips.fake.hang("dcmi_get_device_info", skip=1)
    looking = asyncio.ensure_future(hardware.partitions())
    assert await asyncio.wait({looking}, timeout=0.3) == (set(), {looking})
    chips.fake.remove_by_hand(goes.placement.start)
    chips.fake.drop_rules()
    assert await looking == (stays,)
    assert await hardware.health() == {"npu-0": Health.HEALTHY}


async def test_a_chip_that_is_lost_between_two_calls_is_lost(node_with: Nodes) -> None:
    """It keeps what was last seen on it."""
    chips = node_with()
    made = chips.backend.create(WANTED)
    hardware = Hardware([chips.backend], patience=60)
    await hardware.discover()
    assert await hardware.partitions() == (made,)
    chips.fake.hang("dcmi_get_device_info", skip=1)
    looking = asyncio.ensure_future(hardware.partitions())
    assert await asyncio.wait({looking}, timeout=0.3) == (set(), {looking})
    chips.fake.lose(0)
    chips.fake.drop_rules()
    assert await looking == (made,)
    assert await hardware.health() == {"npu-0": Health.LOST}
