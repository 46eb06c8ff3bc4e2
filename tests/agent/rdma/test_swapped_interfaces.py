"""Interfaces that are not the NIC's: with its alias, under its name, or in its place."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from apportion.agent.rows import NetworkStep
from apportion.errors import NotReady
from testbed.hostnetwork import ip, seen
from tests.agent.rdma.rails import NICS, PLACES, WANTED, rails_below

pytestmark = pytest.mark.usefixtures("interfaces")


async def test_an_interface_that_a_pod_has_made_does_not_pass_for_the_nic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container with CAP_NET_ADMIN gives it the alias by which the NIC is known: the host and the next pod get the NIC all the same."""
    async with rails_below(tmp_path) as rails:
        rails.on_pci(monkeypatch)
        rails.reserved_for_second()
        name, mac = rails.network.name, seen(rails.network.name)["mac"]
        first, namespace = rails.sandbox("first")
        await rails.networks.began(first)
        ip("link", "set", name, "alias", "mine", namespace=namespace)
        ip("link", "add", "evil0", "type", "veth", "peer", "name", "evil1", namespace=namespace)
        ip("link", "set", "evil0", "alias", f"apportion:c-{NICS[0]}", namespace=namespace)
        await rails.networks.ending(first)
        assert rails.steps() == [NetworkStep.WAITING] * 2
        assert (seen(name)["mac"], seen(name)["alias"]) == (mac, "rail 3")
        assert seen("evil0", namespace)
        second, other = rails.sandbox("second")
        await rails.networks.began(second)
        await rails.networks.creating(second, rails.mounts)
        assert seen(name, other)["mac"] == mac


async def test_what_has_the_name_of_the_nic_on_the_host_and_is_not_of_its_pci_device_is_not_the_nic(
    tmp_path: Path,
) -> None:
    """The kernel lists the interfaces of a PCI device in /sys; before Linux 5.14 it says of no interface whose it is."""
    async with rails_below(tmp_path) as rails:
        rails.host.hide_interface("mlx5_0")
        first, _ = rails.sandbox("first")
        with pytest.raises(NotReady, match=f"interface {rails.network.name} is not of {NICS[0]}"):
            await rails.networks.began(first)
        assert rails.where() == 2


async def test_a_nic_whose_first_address_its_driver_changes_is_known_by_its_alias(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drivers of virtual functions take the address that is set above them for the first one (intel/iavf, ixgbevf: `perm_addr`)."""
    mac = "02:00:00:00:00:55"
    async with rails_below(tmp_path) as rails:
        rails.on_pci(monkeypatch)[mac] = PLACES[0]
        row = next(row for row in rails.node.context.journal.networks() if row.device == NICS[0])
        wanted = json.dumps(json.loads(WANTED) | {"interface": {"hardwareAddr": mac}})
        rails.node.context.journal.put_network(replace(row, wanted=wanted))
        before = rails.network.on_host()
        first, namespace = rails.sandbox("first")
        await rails.networks.began(first)
        assert seen(rails.network.name, namespace)["mac"] == mac
        await rails.networks.ending(first)
        assert rails.network.on_host() == before
