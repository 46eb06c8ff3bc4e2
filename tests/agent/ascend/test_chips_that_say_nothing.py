"""A card of DCMI or one of its chips that does not answer: what was found of it stays."""

import pytest

from apportion.agent.devices.values import Health
from apportion.errors import HardwareError
from tests.agent.ascend.nodes import Node, Nodes


@pytest.mark.parametrize("model", ["A3", "310P-48G"])
def test_all_chips_stay_of_a_card_that_does_not_say_how_many_it_has(node_with: Nodes, model: str) -> None:
    """A module carries two: the second one left the slices, and claims that have it could not be prepared."""
    node = node_with([model] * 4)
    whole = node.backend.devices()
    node.fake.fail("dcmi_get_device_id_in_card", -8005)
    assert [card.name for card in node.backend.devices()] == [card.name for card in whole]
    assert node.backend.incomplete()
    assert node.backend.devices() == whole
    assert not node.backend.incomplete()


def test_a_chip_that_the_driver_does_not_list_any_more_is_not_well_and_not_gone(node: Node) -> None:
    """Without its device no slice had a taint that says so, and nobody told the pods that have it."""
    node.backend.devices()
    with node.fake.changing() as state:
        state.chips = 1
    assert [card.name for card in node.backend.devices()] == ["npu-0", "npu-1"]
    assert node.backend.health() == {"npu-1": Health.SICK}
    with pytest.raises(HardwareError, match="npu-1"):
        node.backend.partitions_of("npu-1")
    with node.fake.changing() as state:
        state.chips = 2
    assert [card.name for card in node.backend.devices()] == ["npu-0", "npu-1"]
    assert node.backend.partitions_of("npu-1") == ()
    assert node.backend.health() == {}
