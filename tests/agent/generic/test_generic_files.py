"""What a container gets for a generic device: device files, mounts and environment, as the host has them when it is asked."""

import os
from typing import Any

import pytest

from apportion.agent.devices.values import DeviceNode, Edits, Mount
from apportion.errors import Lost, Unsupported
from testbed.fakes.fpga import FpgaHost
from tests.agent.generic.places import FIRST, SECOND, backend_of


def edits(host: FpgaHost, **changes: Any) -> Edits:
    """Return what a container needs for the card in the first slot."""
    backend = backend_of(host.root, **changes)
    name = next(card.name for card in backend.devices() if card.location.pci_bus_id == FIRST)
    return backend.edits(name)


def test_a_container_gets_the_cards_own_device_file_with_its_number(host: FpgaHost) -> None:
    """Found by the card's folder in /sys; what is optional and not there is left out."""
    found = edits(host)
    assert found.nodes == (DeviceNode("/dev/example/example_fpga121", "", 10, 121),)
    assert found.env == (("EXAMPLE_FPGA", FIRST),)
    assert found.mounts == ()


def test_the_number_is_that_of_the_moment(host: FpgaHost) -> None:
    """A reload of the driver gives another; nothing is kept from discovery."""
    backend = backend_of(host.root)
    backend.devices()
    host.number(FIRST)
    assert backend.edits("fpga-1").nodes == (DeviceNode("/dev/example/example_fpga123", "", 10, 123),)
    host.remove(FIRST)
    with pytest.raises(Lost, match="fpga-1: the node has no fpga FPGA-XF-9d now"):
        backend.edits("fpga-1")


def test_device_files_are_found_by_patterns_with_the_devices_name(host: FpgaHost) -> None:
    """Links of /dev lead to the file that programs open; {name} and {pci} stand for the device's."""
    (host.root / "dev/by-path").mkdir()
    (host.root / "dev/dma0").touch()
    (host.root / f"dev/by-path/pci-{FIRST}-dma").symlink_to("../dma0")
    for number in (1, 0):
        (host.root / f"dev/{FIRST}-region{number}").touch()
    found = edits(host, nodes=["/dev/by-path/pci-{pci}-*", {"path": "/dev/{name}-region?"}]).nodes
    assert [node.path for node in found] == ["/dev/dma0", f"/dev/{FIRST}-region0", f"/dev/{FIRST}-region1"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device files")
def test_a_file_of_the_hosts_dev_has_its_number(host: FpgaHost) -> None:
    """So that the runtime need not find the host's file."""
    try:
        os.mknod(host.root / "dev/fpga7", 0o20600, os.makedev(240, 7))
    except PermissionError:
        pytest.skip("this container makes no device files")
    assert edits(host, nodes=["/dev/fpga7"]).nodes == (DeviceNode("/dev/fpga7", "", 240, 7),)


def test_a_device_file_may_have_another_name_in_the_container(host: FpgaHost) -> None:
    """For programs that look for one name; of several files nobody could say which has it."""
    node = {"sysfs": "misc/*", "container": "/dev/fpga"}
    assert edits(host, nodes=[node]).nodes == (
        DeviceNode("/dev/fpga", "/dev/example/example_fpga121", 10, 121),
    )
    for number in (0, 1):
        (host.root / f"dev/x{number}").touch()
    with pytest.raises(
        Unsupported, match=r"fpga-1: /dev/x\*: the host has 2 such device files, and /dev/fpga is one"
    ):
        edits(host, nodes=[{"path": "/dev/x*", "container": "/dev/fpga"}])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("field", "wanted", "why"),
    [
        ("nodes", "/dev/{name}", f"/dev/{FIRST}: the host has no such device file"),
        ("nodes", {"sysfs": "drm/*"}, "drm/*: the host has no such device file"),
        ("mounts", "/opt/{uuid}", "/opt/FPGA-XF-9d: the host has no such file or folder"),
    ],
)
def test_a_claim_is_not_prepared_without_what_its_containers_need(
    host: FpgaHost, field: str, wanted: object, why: str
) -> None:
    """The error names card and path; with `optional` the container starts without."""
    with pytest.raises(Unsupported) as raised:
        edits(host, **{field: [wanted]})
    assert str(raised.value).startswith("fpga-1: ")
    assert str(raised.value).endswith(why)
    key = "path" if field == "nodes" else "host"
    optional = {**(wanted if isinstance(wanted, dict) else {key: wanted}), "optional": True}
    assert getattr(edits(host, **{field: [optional]}), field) == ()


def test_mounts_are_read_only_unless_they_say_otherwise(host: FpgaHost) -> None:
    """At the same place in the container, or at another."""
    (host.root / "opt/example/fpga").mkdir(parents=True)
    said = [
        "/opt/example",
        {"host": "/opt/example/fpga", "container": "/fpga/{uuid}", "readOnly": False},
    ]
    assert edits(host, mounts=said).mounts == (
        Mount("/opt/example", "/opt/example", ("ro", "nosuid", "nodev", "rbind", "rprivate")),
        Mount("/opt/example/fpga", "/fpga/FPGA-XF-9d", ("rw", "nosuid", "nodev", "rbind", "rprivate")),
    )


def test_a_placeholder_that_a_device_has_no_value_for_is_an_error(host: FpgaHost) -> None:
    """A path that lacks a part would be another path."""
    (host.root / "sys/class/fpga_region/region0").mkdir(parents=True)
    backend = backend_of(host.root, match={"path": "/sys/class/fpga_region/*"}, uuid=None)
    backend.devices()
    with pytest.raises(Unsupported, match=r"fpga-0: \{pci\}: region0 has no pci"):
        backend.edits("fpga-0")


def test_a_folder_without_a_number_is_no_device_file(host: FpgaHost) -> None:
    """Beside those of devices /sys has others, `power` for one."""
    (host.folder(SECOND) / "misc/power").mkdir()
    assert len(backend_of(host.root).devices()) == 2
    backend = backend_of(host.root)
    backend.devices()
    assert [node.minor for node in backend.edits("fpga-0").nodes] == [122]
