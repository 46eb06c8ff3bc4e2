"""Interfaces of a NIC's PCI device that stand for its functions (switchdev): none of them goes into a pod for the NIC's own."""

from pathlib import Path

import pytest

from apportion.agent.devices.rdma import sysfs
from apportion.agent.devices.rdma.away import AwayFolder
from apportion.agent.devices.rdma.backend import RdmaBackend
from testbed.fakes.rdma import RdmaHost


@pytest.mark.parametrize(
    ("own", "others"),
    [
        # The names that the kernel gives (net/devlink/port.c, __devlink_port_phys_port_name_get).
        ("p0", ("pf0vf0", "pf0vf1")),
        ("p1s2", ("pf0sf88", "c1pf0vf3")),
        ("", ("pf0", "c1pf0")),
    ],
)
def test_a_nic_has_its_own_interface_and_none_that_stands_for_a_function(
    tmp_path: Path, own: str, others: tuple[str, ...]
) -> None:
    """The kernel tells them apart by `phys_port_name`, which drivers without such interfaces do not have."""
    host = RdmaHost(tmp_path)
    host.add("mlx5_0", "0000:9d:00.0", link="Ethernet", interface="eth5")
    if own:
        host.name_port("mlx5_0", "eth5", own)
    for number, other in enumerate(others):
        host.name_port("mlx5_0", f"eth{number}", other)
    (card,) = RdmaBackend(tmp_path).devices()
    assert card.attributes["interface"] == "eth5"


def test_the_first_of_several_interfaces_is_that_with_the_lowest_number(tmp_path: Path) -> None:
    """As the kernel counts: `eth10` comes after `eth5`."""
    host = RdmaHost(tmp_path)
    host.add("mlx5_0", "0000:9d:00.0", link="Ethernet", interface="eth5")
    host.name_port("mlx5_0", "eth10", "p1")
    (card,) = RdmaBackend(tmp_path).devices()
    assert card.attributes["interface"] == "eth5"


def test_a_nic_whose_interface_is_in_a_pod_has_that_and_not_what_stands_for_a_function_on_the_host(
    tmp_path: Path,
) -> None:
    """An agent that starts meanwhile would offer that one, and publish the NIC under a new description."""
    host, away = RdmaHost(tmp_path), AwayFolder(tmp_path / "away")
    host.add("mlx5_0", "0000:9d:00.0", link="Ethernet", interface="eth5")
    before = sysfs.read(tmp_path, "mlx5_0")
    assert before is not None
    away.put("c-nic-mlx5-0", before, {})
    host.hide_interface("mlx5_0")
    host.name_port("mlx5_0", "eth1", "pf0vf0")
    (card,) = RdmaBackend(tmp_path, away).devices()
    assert card.attributes["interface"] == "eth5"
