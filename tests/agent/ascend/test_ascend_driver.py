"""A driver that does not answer yet, or answers another interface: what the node publishes, and that others go on."""

import pytest
from structlog.testing import capture_logs

from apportion.agent.devices.hardware import Hardware
from apportion.agent.devices.rdma.backend import RdmaBackend
from apportion.agent.devices.values import MIB, UNCUT, Health, PartitionPlace, Placement
from apportion.errors import HardwareError, Lost, Unsupported
from testbed.fakes.rdma import RdmaHost
from tests.agent.ascend.nodes import WANTED, Node, Nodes


async def test_a_driver_that_is_not_ready_takes_no_other_device_along(node: Node) -> None:
    """The NIC is published; of the chips nothing is known, which is not nothing, until the driver answers."""
    RdmaHost(node.root).add("mlx5_0", "0000:9d:00.0", bridge="80")
    hardware = Hardware([node.backend, RdmaBackend(node.root)])
    node.fake.unload()
    with pytest.raises(HardwareError, match="dcmi_init: not ready"):
        node.backend.present()
    assert set(await hardware.discover()) == {"nic-mlx5-0"}
    assert hardware.incomplete
    assert await hardware.health() == {"nic-mlx5-0": Health.HEALTHY}
    with pytest.raises(Lost, match=r"npu-0: .*DCMI: dcmi_init: not ready \(-8012\)"):
        await hardware.partitions_of("npu-0")
    node.fake.unload(loaded=True)
    # Looks at what was found do not find more: the agent learns of chips from a discovery only.
    assert node.backend.partitions() == ()
    assert hardware.incomplete
    assert set(await hardware.discover()) == {"nic-mlx5-0", "npu-0", "npu-1"}
    assert not hardware.incomplete
    assert await hardware.partitions_of("npu-0") == ()


async def test_chips_that_were_found_stay_when_a_later_discovery_is_refused(node: Node) -> None:
    """What is on them is known as before."""
    hardware = Hardware([node.backend])
    cards = await hardware.discover()
    made = await hardware.create(WANTED)
    node.fake.fail("dcmi_get_card_list", -8010)
    assert await hardware.discover() == cards
    assert hardware.incomplete
    assert await hardware.partitions_of("npu-0") == (made,)
    assert await hardware.discover() == cards
    assert not hardware.incomplete


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


def test_a_library_that_cannot_drive_its_chips_says_so(node_with: Nodes) -> None:
    """By the call that it refused; the agent awaits another one."""
    node = node_with(["950"])
    node.fake.fail("dcmiv2_init", -8255, times=-1)
    for ask in (node.backend.present, node.backend.devices):
        with pytest.raises(Unsupported, match=r"DCMI: dcmiv2_init: not supported \(-8255\)"):
            ask()


@pytest.mark.parametrize("model", ["A3", "310B", "950"])
def test_a_family_without_vnpus_says_so_on_every_chip(node_with: Nodes, model: str) -> None:
    """In the attribute that is published, where those who want a part look for the reason."""
    cards = node_with([model, model]).backend.devices()
    assert [(card.attributes[UNCUT], card.profiles, card.totals) for card in cards] == [
        ("NotSupported", (), {})
    ] * 2
