"""A driver that does not answer yet, or answers another interface: what the node publishes, and that others go on."""

import pytest
from structlog.testing import capture_logs

from apportion.agent.devices.ascend.backend import AscendBackend
from apportion.agent.devices.hardware import Hardware
from apportion.agent.devices.rdma.backend import RdmaBackend
from apportion.agent.devices.values import MIB, UNCUT, Health, PartitionPlace, Placement
from apportion.errors import Lost, Unsupported
from testbed.fakes.rdma import RdmaHost
from tests.agent.ascend.nodes import WANTED, Node, Nodes


async def test_a_driver_that_is_not_ready_takes_no_other_device_along(node: Node) -> None:
    """The NIC is published; of the chips nothing is known, which is not nothing, until the driver answers."""
    RdmaHost(node.root).add("mlx5_0", "0000:9d:00.0", bridge="80")
    hardware = Hardware([node.backend, RdmaBackend(node.root)])
    node.fake.unload()
    assert node.backend.present()
    assert set(await hardware.discover()) == {"nic-mlx5-0"}
    assert hardware.incomplete
    assert await hardware.health() == {"nic-mlx5-0": Health.HEALTHY}
    assert await hardware.partitions() == ()
    with pytest.raises(
        Lost, match=r"npu-0: DCMI: dcmi_init: not ready \(-8012\); nobody knows what is on it"
    ):
        await hardware.partitions_of("npu-0")
    node.fake.unload(loaded=True)
    # Looks at what was found do not find more: the agent learns of chips from a discovery only.
    assert await hardware.partitions() == ()
    assert hardware.incomplete
    assert set(await hardware.discover()) == {"nic-mlx5-0", "npu-0", "npu-1"}
    assert not hardware.incomplete
    assert await hardware.partitions_of("npu-0") == ()


def test_chips_that_were_found_stay_when_a_later_discovery_is_refused(node: Node) -> None:
    """One log line for each refusal that lasts; what is on them is known as before."""
    cards = node.backend.devices()
    made = node.backend.create(WANTED)
    node.fake.fail("dcmi_get_card_list", -8010, times=2)
    with capture_logs() as logs:
        assert [node.backend.devices() for _ in range(2)] == [cards] * 2
    assert [row["error"] for row in logs if row["event"] == "ascend.not_ready"] == [
        "DCMI: dcmi_get_card_list: no message could be sent to the device (-8010)"
    ]
    assert node.backend.incomplete()
    assert node.backend.partitions_of("npu-0") == (made,)
    assert node.backend.devices() == cards
    assert not node.backend.incomplete()


def test_a_950_answers_the_second_interface_and_is_published_whole(node_with: Nodes) -> None:
    """Its driver refuses the first one and has no vNPUs; the attribute says so."""
    node = node_with(["950", "950"])
    assert node.backend.present()
    cards = node.backend.devices()
    assert [(card.name, card.attributes["model"], card.attributes[UNCUT]) for card in cards] == [
        ("npu-0", "Ascend950DT", "NotSupported"),
        ("npu-1", "Ascend950DT", "NotSupported"),
    ]
    assert cards[0].capacity == {"aicore": 24, "memory": 65536 * MIB}
    assert str(cards[0].attributes["driverVersion"]) == "24.1.0-rc3"
    assert [card.location.pci_bus_id for card in cards] == ["0000:81:00.0", "0000:82:00.0"]
    assert len({card.uuid for card in cards}) == 2
    assert all(len(card.uuid) == len("NPU-") + 40 for card in cards)
    assert [node.backend.partitions(), node.backend.partitions_of("npu-0")] == [(), ()]
    with pytest.raises(Unsupported, match="npu-0 offers no template"):
        node.backend.create(PartitionPlace("npu-0", "vir02", Placement(100, 1)))
    node.backend.make_whole("npu-0")


def test_a_950_has_alarms_and_may_be_lost(node_with: Nodes) -> None:
    """Through the second interface, each chip for itself."""
    node = node_with(["950", "950"])
    node.backend.devices()
    node.fake.set_health(1, 3)
    with capture_logs() as logs:
        assert node.backend.health() == {"npu-1": Health.SICK}
    assert [row["faults"] for row in logs] == [["0x80e01801"]]
    node.fake.lose(0)
    assert node.backend.health() == {"npu-0": Health.LOST, "npu-1": Health.SICK}


def test_a_library_that_cannot_drive_its_chips_says_so_in_the_log(node_with: Nodes) -> None:
    """And the node goes on without them."""
    node = node_with(["950"])
    node.fake.fail("dcmiv2_init", -8255, times=-1)
    with capture_logs() as logs:
        assert AscendBackend(node.root).present()
        assert node.backend.devices() == ()
    assert {row["error"] for row in logs} == {"DCMI: dcmiv2_init: not supported (-8255)"}


@pytest.mark.parametrize("model", ["A3", "310B", "950"])
def test_a_family_without_vnpus_says_so_on_every_chip(node_with: Nodes, model: str) -> None:
    """In the attribute that is published, where those who want a part look for the reason."""
    cards = node_with([model, model]).backend.devices()
    assert [(card.attributes[UNCUT], card.profiles, card.totals) for card in cards] == [
        ("NotSupported", (), {})
    ] * 2
