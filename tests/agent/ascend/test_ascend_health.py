"""How the Ascend backend tells sick chips from lost ones, and what it makes of chips that cannot be read."""

import pytest
from structlog.testing import capture_logs

from apportion.agent.devices.ascend.backend import AscendBackend
from apportion.agent.devices.values import Health
from apportion.errors import HardwareError, Lost
from tests.agent.ascend.nodes import WANTED, Node


@pytest.mark.parametrize(
    ("grade", "health"),
    [
        (0, {}),
        (1, {}),
        (2, {"npu-0": Health.SICK}),
        (3, {"npu-0": Health.SICK}),
        (0xFFFFFFFF, {"npu-0": Health.LOST}),
    ],
)
def test_the_drivers_grades(node: Node, grade: int, health: dict[str, Health]) -> None:
    """A minor alarm is none of ours; all of it passes."""
    node.fake.set_health(0, grade)
    assert node.backend.health() == health
    node.fake.heal()
    assert node.backend.health() == {}


def test_a_change_is_logged_once_with_the_drivers_codes(node: Node) -> None:
    """People look them up; another look at the same alarm says nothing."""
    node.backend.devices()
    node.fake.set_health(0, 3)
    with capture_logs() as logs:
        node.backend.health()
        node.backend.health()
    assert [(row["card"], row["health"], row["faults"]) for row in logs] == [
        ("npu-0", "Sick", ["0x80e01801"])
    ]


def test_a_chip_that_cannot_be_asked_is_sick_and_one_that_is_gone_is_lost(node: Node) -> None:
    """The other one is neither."""
    node.backend.devices()
    node.fake.fail("dcmi_get_device_health", -8012, card=0)
    assert node.backend.health() == {"npu-0": Health.SICK}
    node.fake.lose(1)
    assert node.backend.health() == {"npu-1": Health.LOST}


def test_what_cannot_be_seen_is_not_gone(node: Node) -> None:
    """A chip whose vNPUs cannot be listed shows the last ones, and counts as sick until it can be read again."""
    made = node.backend.create(WANTED)
    assert node.backend.partitions() == (made,)
    node.fake.fail("dcmi_get_device_info", -8005, card=0, times=2)
    assert node.backend.partitions() == (made,)
    assert node.backend.health() == {"npu-0": Health.SICK}
    with pytest.raises(HardwareError, match="internal error"):
        node.backend.partitions_of("npu-0")
    assert node.backend.partitions_of("npu-1") == ()
    assert node.backend.partitions_of("npu-0") == (made,)
    assert node.backend.health() == {}


def test_a_lost_chip_keeps_its_vnpus_until_it_is_seen_without_them(node: Node) -> None:
    """Neither is it empty for a new one, nor is anything of it removed."""
    made = node.backend.create(WANTED)
    node.backend.partitions()
    node.fake.lose(0)
    assert node.backend.partitions() == (made,)
    for act in (lambda: node.backend.partitions_of("npu-0"), lambda: node.backend.destroy(made)):
        with pytest.raises(Lost):
            act()
    node.fake.remove_by_hand(103)
    node.fake.heal()
    assert node.backend.partitions() == ()


def test_one_half_read_vnpu_makes_the_whole_chip_unread(node: Node) -> None:
    """A list that misses one would let its owner believe that it is gone."""
    made = node.backend.create(WANTED)
    node.backend.partitions()
    # The list itself is answered, the question about the one vNPU is not.
    node.fake.fail("dcmi_get_device_info", -8006, skip=1, card=0)
    with pytest.raises(HardwareError, match="timed out"):
        node.backend.partitions_of("npu-0")
    node.fake.fail("dcmi_get_device_info", -8006, skip=1, card=0)
    assert AscendBackend.partitions(node.backend) == (made,)
