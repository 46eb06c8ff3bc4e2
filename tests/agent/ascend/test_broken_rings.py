"""The rings of a 910A server, which its library does not tell, while one of its chips does not answer."""

from apportion.agent.devices.ascend.backend import AscendBackend
from tests.agent.ascend.nodes import Nodes


def test_a_chip_that_does_not_answer_takes_itself_out_of_its_ring_and_nobody_else(node_with: Nodes) -> None:
    """Eight chips are two rings: where seven answered there was none, and a claim for four connected ones was refused."""
    node = node_with(["910A"] * 8)
    groups = {card.name: card.attributes["hccsGroup"] for card in node.backend.devices()}
    node.fake.fail("dcmi_get_device_die_v2", -8012, card=7, times=-1)
    found = {card.name: card.attributes.get("hccsGroup") for card in AscendBackend(node.root).devices()}
    assert found == {name: group for name, group in groups.items() if name != "npu-7"}
