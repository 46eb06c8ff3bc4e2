"""One chip that cannot be read, or has died, is that chip's matter: the others keep their names' worth, and nothing is taken for gone."""

import itertools
import time
from dataclasses import replace

import pytest

from apportion.agent.devices.ascend.backend import AscendBackend
from apportion.agent.devices.cardcalls import CardCalls
from apportion.agent.devices.values import UNCUT, Card, Health
from apportion.errors import HardwareError, Lost
from tests.agent.ascend.nodes import WANTED, Node, Nodes

READS = (
    "dcmi_get_device_logic_id",
    "dcmi_get_device_chip_info_v2",
    "dcmi_get_device_hbm_info",
    "dcmi_get_device_board_id",
    "dcmi_get_device_pcie_info_v2",
    "dcmi_get_device_die_v2",
    "dcmi_get_device_info",
)
DEADLINE = 3.0
"""Seconds for a question to all cards; a busy machine asks those that answer within it."""
MODELS = ["310P", "310P-48G", "910A", "910B4", "A3", "310B", "950"]


def alone(card: Card) -> Card:
    """Return a card without the group of others that it names."""
    return replace(card, attributes={key: row for key, row in card.attributes.items() if key != "hccsGroup"})


@pytest.mark.parametrize(
    ("call", "code"),
    [
        *itertools.product(READS, [-8005, -8006, -8010, -8012, -77, 12]),
        # These pass for "this chip makes no vNPUs", and it has one.
        *itertools.product(["dcmi_get_device_info"], [-8001, -8002, -8255]),
    ],
)
def test_a_chip_that_cannot_be_read_is_left_out_and_never_published_as_another(
    node: Node, call: str, code: int
) -> None:
    """Codes that nobody knows too. The other chip is there, and this one as it is as soon as it answers."""
    whole = node.backend.devices()
    made = node.backend.create(WANTED)
    fresh = AscendBackend(node.root)
    node.fake.fail(call, code, card=0, times=-1)
    assert [alone(card) for card in fresh.devices()] == [alone(whole[1])]
    assert fresh.incomplete()
    with pytest.raises(Lost, match="npu-0: 1 of the node's chips did not answer"):
        fresh.partitions_of("npu-0")
    assert fresh.partitions_of("npu-1") == ()
    node.fake.drop_rules()
    assert fresh.devices() == whole
    assert fresh.partitions_of("npu-0") == (made,)


@pytest.mark.parametrize("code", [-8001, -8002, -8005])
def test_a_chip_of_an_unknown_model_that_cannot_be_read_is_left_out_too(node_with: Nodes, code: int) -> None:
    """Somebody's vNPU may be on it. The library's word for a chip that makes none is another one."""
    node = node_with(["unknown", "910B4"])
    node.fake.create_by_hand(0, "vir12_4c_32g", 100)
    node.fake.fail("dcmi_get_device_info", code, card=0, times=-1)
    assert [card.name for card in node.backend.devices()] == ["npu-1"]
    assert node.backend.incomplete()
    node.fake.drop_rules()
    assert [card.name for card in node.backend.devices()] == ["npu-0", "npu-1"]
    assert [live.placement.start for live in node.backend.partitions_of("npu-0")] == [100]


def test_where_no_vnpu_has_a_device_file_a_chip_may_say_that_it_makes_none(node: Node) -> None:
    """As in a virtual machine, which has whole chips. It is published whole."""
    for file in (node.root / "dev").glob("vdavinci*"):
        file.unlink()
    node.fake.fail("dcmi_get_device_info", -8255, times=-1)
    assert [card.attributes[UNCUT] for card in node.backend.devices()] == ["NotSupported"] * 2
    assert not node.backend.incomplete()


@pytest.mark.parametrize("call", ["*", "dcmi_get_device_hbm_info"])
def test_chips_that_hang_when_an_agent_starts_cost_the_others_one_deadline(
    node_with: Nodes, call: str
) -> None:
    """The others are served; what is on those that hang is unknown until they answer."""
    node = node_with(["910B4"] * 4)
    for card in (0, 2):
        node.fake.hang(call, card=card)
    fresh = AscendBackend(node.root, calls=CardCalls(DEADLINE))
    began = time.monotonic()
    assert [card.name for card in fresh.devices()] == ["npu-1", "npu-3"]
    assert time.monotonic() - began < 2 * DEADLINE
    assert fresh.incomplete()
    with pytest.raises(Lost, match="npu-0: 2 of the node's chips did not answer"):
        fresh.partitions_of("npu-0")
    node.fake.drop_rules()
    while len(fresh.devices()) < 4:
        assert time.monotonic() - began < 60


def test_a_chip_whose_links_hang_costs_the_others_one_deadline(node_with: Nodes) -> None:
    """All are served, in one group if the others tell that they are, and it is asked again until it answers."""
    node = node_with(["910B4"] * 4)
    node.fake.hang("dcmi_get_topo_info_by_device_id", card=0)
    fresh = AscendBackend(node.root, calls=CardCalls(DEADLINE))
    began = time.monotonic()
    groups = [card.attributes.get("hccsGroup") for card in fresh.devices()]
    assert time.monotonic() - began < 2 * DEADLINE
    assert groups[0] is None
    assert len(set(groups[1:])) == 1
    assert fresh.incomplete()
    node.fake.drop_rules()
    # Those that answer first may be enough to tell the group.
    while len({card.attributes.get("hccsGroup") for card in fresh.devices()}) > 1 or fresh.incomplete():
        assert time.monotonic() - began < 60


def test_a_vnpu_that_was_removed_is_not_among_what_was_last_seen(node: Node) -> None:
    """A chip that fails right after the removal shows what was seen on it."""
    made = node.backend.create(WANTED)
    assert node.backend.partitions() == (made,)
    node.backend.destroy(made)
    node.fake.fail("dcmi_get_device_info", -8005, card=0, times=-1)
    assert node.backend.partitions() == ()


def test_a_card_that_does_not_say_how_many_chips_it_has_is_left_out_alone(node: Node) -> None:
    """As any chip that does not answer."""
    whole = node.backend.devices()
    fresh = AscendBackend(node.root)
    node.fake.fail("dcmi_get_device_id_in_card", -8005)
    assert [card.name for card in fresh.devices()] == ["npu-1"]
    assert fresh.incomplete()
    assert fresh.devices() == whole
    assert not fresh.incomplete()


@pytest.mark.parametrize("call", READS)
def test_a_chip_that_was_found_stays_while_a_later_discovery_cannot_read_it(node: Node, call: str) -> None:
    """What is on it is asked of it itself; its place in the slices does not come and go with its moods."""
    whole = node.backend.devices()
    made = node.backend.create(WANTED)
    node.fake.fail(call, -8012, card=0, times=-1)
    assert [alone(card) for card in node.backend.devices()] == [alone(card) for card in whole]
    assert node.backend.incomplete()
    if call == "dcmi_get_device_info":
        with pytest.raises(HardwareError, match="not ready"):
            node.backend.partitions_of("npu-0")
    else:
        assert node.backend.partitions_of("npu-0") == (made,)
    node.fake.drop_rules()
    assert node.backend.devices() == whole


@pytest.mark.parametrize("code", [-8001, -8005, -8010, -8255, -77, 12])
def test_whatever_a_chip_answers_about_its_health_the_others_are_well(node: Node, code: int) -> None:
    """An answer that nobody knows makes it sick, not the node."""
    node.backend.devices()
    node.fake.fail("dcmi_get_device_health", code, card=1, times=-1)
    assert node.backend.health() == {"npu-1": Health.SICK}


@pytest.mark.parametrize("model", MODELS)
def test_a_chips_uuid_is_its_own_and_outlives_the_death_of_another_one(node_with: Nodes, model: str) -> None:
    """On every family, by the die; names go by the physical id, which on cards (310P) counts what was found."""
    node = node_with([model] * 4)
    before = node.backend.devices()
    assert len({card.uuid for card in before}) == 4
    node.fake.reboot_without(0)
    after = AscendBackend(node.root).devices()
    assert [card.uuid for card in after] == [card.uuid for card in before[1:]]
    counted = model.startswith("310P")
    assert [card.name for card in after] == [f"npu-{number - counted}" for number in (1, 2, 3)]
