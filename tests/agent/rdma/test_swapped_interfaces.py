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
        rails.on_pci(monkeypatch)[mac] = (PLACES[0], mac)
        row = next(row for row in rails.node.context.journal.networks() if row.device == NICS[0])
        wanted = json.dumps(json.loads(WANTED) | {"interface": {"hardwareAddr": mac}})
        rails.node.context.journal.put_network(replace(row, wanted=wanted))
        before = rails.network.on_host()
        first, namespace = rails.sandbox("first")
        await rails.networks.began(first)
        assert seen(rails.network.name, namespace)["mac"] == mac
        await rails.networks.ending(first)
        assert rails.network.on_host() == before


async def test_a_claim_ends_though_its_nic_was_made_anew_while_it_was_in_the_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A NIC that was replaced, or a virtual function that was made anew, has another first address: the former one never comes."""
    async with rails_below(tmp_path) as rails:
        places = rails.on_pci(monkeypatch)
        first, namespace = rails.sandbox("first")
        await rails.networks.began(first)
        # The kernel ends the former one in the pod.
        ip("link", "delete", rails.network.name, namespace=namespace)
        mac = "02:00:00:00:00:77"
        rails.network.plug("address", mac)
        peer = seen(rails.network.peer)["mac"]
        places |= {mac: (PLACES[0], mac), peer: (PLACES[1], peer)}
        await rails.networks.ending(first)
        rails.network.end(namespace)
        assert await rails.refusals() == []
        assert rails.node.context.journal.networks() == ()
        assert seen(rails.network.name)["mac"] == mac


async def test_a_nic_that_is_nowhere_keeps_its_claim_beside_what_stands_for_one_of_its_functions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pod has taken it to a namespace of its own; such an interface (switchdev) is of the same PCI device."""
    async with rails_below(tmp_path) as rails:
        places = rails.on_pci(monkeypatch)
        name, mac = rails.network.name, "02:00:00:00:00:66"
        (first, namespace), (deeper, _) = rails.sandbox("first"), rails.network.pod()
        await rails.networks.began(first)
        ip("link", "set", name, "netns", deeper, namespace=namespace)
        ip(
            "link",
            "add",
            f"{name}x",
            "address",
            mac,
            "type",
            "veth",
            "peer",
            "name",
            f"{rails.network.peer}x",
        )
        try:
            places[mac] = (PLACES[0], "")
            await rails.networks.ending(first)
            assert "is neither in the pod nor on the host" in (await rails.refusals())[0]
            ip("link", "set", name, "netns", namespace, namespace=deeper)
            assert await rails.refusals() == []
        finally:
            ip("link", "delete", f"{name}x")
