"""Generic devices of a host: which are found, what is published of them, how they fare."""

from pathlib import Path
from typing import Any

import pytest

from apportion.agent.devices.generic.backend import GenericBackend
from apportion.agent.devices.generic.kind import DeviceKind
from apportion.agent.devices.names import UnkeptNames
from apportion.agent.devices.values import Health, LivePartition, Location, PartitionPlace, Placement
from apportion.agent.slices.nodeinventory import NodeInventory
from apportion.agent.slices.pool import pools
from apportion.dra.semver import Semver
from apportion.errors import Unsupported
from testbed.fakes.fpga import FpgaHost
from testbed.fakes.pci import plug
from tests.agent.generic.places import FIRST, FPGA, SECOND, backend_of

FPGA_REGION = {"match": {"path": "/sys/class/fpga_region/*"}}


def test_a_card_says_what_it_is_where_it_is_and_what_it_has(host: FpgaHost) -> None:
    """In the order of the bus; values have their types, from files and fixed."""
    first, second = backend_of(host.root).devices()
    assert (first.name, first.kind, first.uuid) == ("fpga-0", "fpga", "FPGA-XF-1a")
    assert first.location == Location("0000:1a:00.0", "pci0000:18", 0)
    assert (second.name, second.uuid, second.location.pcie_root) == ("fpga-1", "FPGA-XF-9d", "pci0000:80")
    assert second.attributes == {
        "identifiedBy": "serial",
        "model": "EX-200",
        "firmwareVersion": Semver.parse("2.1.0"),
        "freeRegions": 4,
        "partialReconfiguration": True,
    }
    assert second.capacity == {"regions": 4, "dmaBandwidth": 12_000_000_000}


def test_it_is_published_under_its_own_driver_with_the_guard(host: FpgaHost) -> None:
    """Claims find it by driver and type, and kube-scheduler's allocator keeps off it."""
    cards = backend_of(host.root).devices()
    (pool,) = pools(NodeInventory(cards), {"gpu": "gpu.apportion.dev", "fpga": FPGA})
    assert pool.driver == FPGA
    row = pool.contents[0].rows[1]
    assert row["attributes"]["type"] == {"string": "fpga"}
    assert row["attributes"]["firmwareVersion"] == {"version": "2.1.0"}
    assert row["capacity"] == {"regions": {"value": "4"}, "dmaBandwidth": {"value": "12G"}}
    assert [taint["key"] for taint in row["taints"]] == ["apportion.dev/guard"]


@pytest.mark.parametrize(
    ("pci", "names"),
    [
        ({"vendor": "10ee"}, 2),
        ({"vendor": ["0x8086", "0x10ee"], "class": "12"}, 2),
        ({"vendor": "0x8086"}, 0),
        ({"class": "0x120000", "driver": "vfio-pci"}, 0),
        ({"driver": "example_fpga"}, 2),
        ({"vendor": "0x10ee", "device": "0x5000"}, 1),
    ],
)
def test_all_that_a_match_names_must_hold(host: FpgaHost, pci: dict[str, Any], names: int) -> None:
    """Ids with and without 0x, one or several; the class by its first bytes; the driver that is bound."""
    (host.folder(FIRST) / "device").write_text("0x5000\n")
    assert len(backend_of(host.root, match={"pci": pci}).devices()) == names


def test_files_of_a_device_decide_whether_it_matches(host: FpgaHost) -> None:
    """The whole text must be as the expression says; a file that is not there is none."""
    for where, uuids in (
        ({"free_regions": "[2-9]"}, ["FPGA-XF-9d"]),
        ({"absent": ".*"}, []),
        ({"board_name": "EX"}, []),
    ):
        found = backend_of(host.root, match={"pci": {"vendor": "10ee"}, "where": where}).devices()
        assert [card.uuid for card in found] == uuids


def test_devices_of_a_class_are_found_by_path_and_know_their_pci_device(host: FpgaHost) -> None:
    """The kernel's links lead from the class to the device; its bus id lasts longer than the kernel's number."""
    regions(host.root, host.folder(FIRST), "region2")
    regions(host.root, host.folder(SECOND), "region10", "region9")
    cards = backend_of(host.root, **FPGA_REGION, uuid=None).devices()
    assert [(card.uuid, card.location.pci_bus_id) for card in cards] == [
        ("FPGA-0000:9d:00.0", FIRST),
        ("FPGA-0000:1a:00.0/region9", SECOND),
        ("FPGA-0000:1a:00.0/region10", SECOND),
    ]
    assert {card.attributes["identifiedBy"] for card in cards} == {"place"}


def regions(root: Path, card: Path, *names: str) -> None:
    """Add FPGA regions to a card, as class fpga_region shows them."""
    for name in names:
        (card / "fpga_region" / name).mkdir(parents=True)
        link = root / "sys/class/fpga_region" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(Path("../..") / (card / "fpga_region" / name).relative_to(root / "sys"))


def test_devices_without_pci_are_known_by_their_names(tmp_path: Path) -> None:
    """A platform device has no bus id, and so no PCIe root that it would share with others."""
    (tmp_path / "sys/class/fpga_region/region0").mkdir(parents=True)
    (card,) = backend_of(tmp_path, **FPGA_REGION, uuid=None).devices()
    assert (card.uuid, card.location) == ("FPGA-region0", Location("", ""))


def test_a_link_that_leads_out_of_the_host_is_followed_below_its_root(host: FpgaHost, tmp_path: Path) -> None:
    """An absolute link of the host begins at the host's root, not at the container's."""
    (tmp_path / "serial").write_text("the container's\n")
    (host.folder(FIRST) / "serial_number").unlink()
    (host.folder(FIRST) / "serial_number").symlink_to(tmp_path / "serial")
    backend = backend_of(host.root)
    assert [card.uuid for card in backend.devices()] == ["FPGA-XF-1a"]
    assert "serial_number is no file" in backend.unnamed[0]


@pytest.mark.parametrize("said", ["", "0000-0000", "two words", "XF-1a", "x" * 60])
def test_a_card_that_may_be_another_one_is_left_out_with_the_reason(host: FpgaHost, said: str) -> None:
    """What is prepared on it could not be found by its UUID; it comes back when its number can be read."""
    host.say(FIRST, "serial_number", said)
    backend = backend_of(host.root)
    assert [card.uuid for card in backend.devices()] == ([] if said == "XF-1a" else ["FPGA-XF-1a"])
    assert FIRST in backend.unnamed[0]
    assert not backend.incomplete()
    host.say(FIRST, "serial_number", "XF-9d")
    assert backend.incomplete()
    assert {card.uuid for card in backend.devices()} == {"FPGA-XF-1a", "FPGA-XF-9d"}
    assert backend.unnamed == ()


@pytest.mark.parametrize(
    ("file", "text", "field"),
    [
        ("free_regions", "many", "freeRegions"),
        ("shell", "shell two", "firmwareVersion"),
        ("board_name", "x" * 65, "model"),
        ("regions", "-1", "regions"),
        ("free_regions", str(2**63), "freeRegions"),
    ],
)
def test_what_cannot_be_read_is_left_out_and_named(host: FpgaHost, file: str, text: str, field: str) -> None:
    """The device is there all the same; a value that is not known would match what it must not."""
    host.say(FIRST, file, text)
    backend = backend_of(host.root)
    card = next(card for card in backend.devices() if card.location.pci_bus_id == FIRST)
    assert field not in {**card.attributes, **card.capacity}
    assert f"{card.name}: " in backend.edits(card.name).warning
    assert field in backend.edits(card.name).warning
    assert backend.edits("fpga-0").warning == ""


def test_a_card_that_is_not_ready_is_sick_and_one_that_was_pulled_is_lost(host: FpgaHost) -> None:
    """By the file of its health; a file that cannot be read is no sign of health."""
    backend = backend_of(host.root)
    backend.devices()
    assert backend.health() == {}
    host.say(FIRST, "status", "ready, but hot")
    (host.folder(SECOND) / "status").unlink()
    assert backend.health() == {"fpga-0": Health.SICK, "fpga-1": Health.SICK}
    assert backend.health(["fpga-1"]) == {"fpga-1": Health.SICK}
    host.say(SECOND, "status", "ready")
    host.remove(FIRST)
    assert backend.health() == {"fpga-1": Health.LOST}
    assert [card.name for card in backend.devices()] == ["fpga-0", "fpga-1"]


def test_without_a_file_of_its_health_a_card_that_is_there_is_well(host: FpgaHost) -> None:
    """Most classes of the kernel have none."""
    backend = backend_of(host.root, health=None)
    backend.devices()
    host.say(FIRST, "status", "smoke")
    assert backend.health() == {}


def test_a_value_that_changes_is_noticed(host: FpgaHost) -> None:
    """Free regions come and go; the agent looks at a card's files with its health."""
    backend = backend_of(host.root)
    backend.devices()
    assert not backend.incomplete()
    host.say(FIRST, "free_regions", "3")
    backend.health()
    assert backend.incomplete()
    assert [card.attributes["freeRegions"] for card in backend.devices()] == [1, 3]
    backend.health()
    assert not backend.incomplete()


def test_a_name_belongs_to_a_card_wherever_it_is_plugged_in(host: FpgaHost) -> None:
    """By its serial number; another card gets a name that none had."""
    names = UnkeptNames()
    kind = DeviceKind.from_json(_kind())
    GenericBackend(kind, host.root, names).devices()
    host.remove(SECOND)
    host.add("0000:01:00.0", bridge="00", serial_number="XF-new")
    cards = GenericBackend(kind, host.root, names).devices()
    assert [(card.name, card.uuid) for card in cards] == [("fpga-2", "FPGA-XF-new"), ("fpga-1", "FPGA-XF-9d")]


def _kind() -> dict[str, Any]:
    return {
        "type": "fpga",
        "driver": FPGA,
        "match": {"pci": {"vendor": "10ee"}},
        "uuid": {"file": "serial_number"},
    }


def test_devices_of_other_vendors_are_nobodys(host: FpgaHost) -> None:
    """What no kind describes is not published."""
    plug(host.root, "0000:2a:00.0", "28", 0, vendor=0x8086, device_class=0x020000)
    assert len(backend_of(host.root).devices()) == 2


def test_nothing_of_it_can_be_cut(host: FpgaHost) -> None:
    """Every verb of the protocol has an answer."""
    backend = backend_of(host.root)
    place = PartitionPlace("fpga-0", "half", Placement(0, 1))
    assert backend.partitions() == backend.partitions_of("fpga-0") == ()
    backend.make_whole("fpga-0")
    with pytest.raises(Unsupported, match="a fpga cannot be cut"):
        backend.create(place)
    with pytest.raises(Unsupported, match="a fpga cannot be cut"):
        backend.destroy(LivePartition(place.card, place.profile, place.placement, ""))
