"""The driver's own memory of vNPUs, /etc/vnpu.cfg: what comes back at boot is what somebody wants."""

import pytest

from apportion.agent.devices.values import PartitionPlace, Placement
from apportion.errors import HardwareError
from tests.agent.ascend.nodes import WANTED, Node, Nodes

OTHER = PartitionPlace("npu-1", "vir05_1c_8g", Placement(116, 1))


@pytest.fixture
def node(node_with: Nodes) -> Node:
    """Give a node whose driver makes vNPUs again at boot, and whose file for them the agent has."""
    return node_with(["910B4", "910B4"], recover=True, mounted=True)


@pytest.mark.parametrize(
    ("model", "template"), [("310P", "vir02"), ("910A", "vir02"), ("910B4", "vir05_1c_8g")]
)
def test_an_agent_in_a_container_has_a_file_of_its_own_from_which_nothing_comes_back(
    node_with: Nodes, model: str, template: str
) -> None:
    """Somebody else's vNPUs come back as they were meant to; where ours were there is room."""
    node = node_with([model, model], recover=True)
    node.fake.create_by_hand(0, template, 100)
    node.backend.create(PartitionPlace("npu-1", template, Placement(116, 1)))
    node.fake.reboot()
    assert [row.id for row in node.fake.vnpus()] == [100]
    made = node.backend.create(PartitionPlace("npu-1", template, Placement(116, 1)))
    node.backend.destroy(made)
    assert node.fake.recovers


@pytest.mark.parametrize("model", ["310P", "910A"])
def test_where_the_switch_is_refused_ours_come_back_under_their_ids_until_they_are_removed(
    node_with: Nodes, model: str
) -> None:
    """310P and 910A refuse it in every container: with the host's file in it, ours are found as they were."""
    node = node_with([model], recover=True, mounted=True)
    made = node.backend.create(PartitionPlace("npu-0", "vir02", Placement(103, 1)))
    assert node.fake.recovers
    node.fake.reboot()
    assert node.backend.partitions_of("npu-0") == (made,)
    node.backend.destroy(made)
    node.fake.reboot()
    assert node.fake.vnpus() == ()


def test_it_is_switched_off_before_the_first_vnpu_of_the_node(node: Node) -> None:
    """Else vNPUs of claims that are long gone would come back."""
    node.backend.create(WANTED)
    assert not node.fake.recovers
    node.fake.reboot()
    assert node.backend.partitions() == ()


def test_it_stays_where_somebody_else_has_vnpus(node: Node) -> None:
    """Theirs come back; ours too, under its id, and removing it removes its line."""
    node.fake.create_by_hand(0, "vir05_1c_8g", 100)
    made = node.backend.create(OTHER)
    assert node.fake.recovers
    node.fake.reboot()
    assert [row.id for row in node.fake.vnpus()] == [100, 116]
    assert node.backend.partitions_of("npu-1") == (made,)
    node.backend.destroy(made)
    node.fake.reboot()
    assert [row.id for row in node.fake.vnpus()] == [100]


def test_it_stays_where_a_chip_cannot_be_seen(node: Node) -> None:
    """Somebody's vNPUs may be on it, and switching it off forgets them."""
    node.fake.create_by_hand(0, "vir05_1c_8g", 100)
    node.backend.devices()
    node.fake.lose(0)
    node.backend.create(OTHER)
    assert node.fake.recovers


def test_a_file_that_cannot_be_written_undoes_the_vnpu(node: Node) -> None:
    """The error names the file."""
    node.fake.create_by_hand(0, "vir05_1c_8g", 100)
    config = node.fake.path.with_name("vnpu.cfg")
    config.symlink_to("/dev/null")
    with pytest.raises(HardwareError, match=r"is /etc/vnpu.cfg writable, and no link\?"):
        node.backend.create(WANTED)
    assert [row.id for row in node.fake.vnpus()] == [100]
    config.unlink()
    node.backend.create(WANTED)
    assert "0:103:npu-smi set -t create-vnpu -i 1 -c 0 -f vir05_1c_8g -v 103" in config.read_text()


def test_a_driver_that_does_not_let_it_be_switched_off_cuts_all_the_same(node: Node) -> None:
    """What comes back at boot is found by its id."""
    node.fake.fail("dcmi_set_vnpu_config_recover_mode", -8005)
    node.backend.create(WANTED)
    assert node.fake.recovers


def test_a_driver_without_it_is_not_asked_to_switch_it_off(node: Node) -> None:
    """Neither is one that has it off."""
    node.fake.fail("dcmi_get_vnpu_config_recover_mode", -8255)
    node.backend.create(WANTED)
    assert "dcmi_set_vnpu_config_recover_mode" not in node.fake.calls()
