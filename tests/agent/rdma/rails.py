"""Two NICs of one claim on a node below a folder: their interfaces are real ones, the kernel's word for their PCI devices is not."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from apportion.agent.devices.rdma.backend import RdmaBackend
from apportion.agent.network.nri import Sandbox
from apportion.agent.network.podnetworks import PodNetworks
from apportion.agent.rows import ClaimDevice, ClaimRow, ClaimStep, NetworkRow, NetworkStep
from apportion.cluster.kinds import CLAIMS
from apportion.errors import NotReady
from testbed.fakes.rdma import RdmaHost
from testbed.hostnetwork import HostNetwork, host_network, seen, unmount_below
from tests.agent.lifecycle.onecard import OneCard, one_card
from tests.agent.places import RDMA
from tests.agent.rdma.podnetworksbelow import pod_networks

NICS = ("nic-mlx5-0", "nic-mlx5-1")
PLACES = ("0000:9d:00.0", "0000:9e:00.0")
"""Bus ids of the NICs."""
WANTED = '{"apiVersion": "config.apportion.dev/v1alpha1", "kind": "NetworkConfig"}'


@dataclass(frozen=True)
class Rails:
    """A node with a prepared claim for two NICs, whose interfaces are two real ones."""

    node: OneCard
    networks: PodNetworks
    network: HostNetwork
    host: RdmaHost

    def sandbox(self, pod: str) -> tuple[Sandbox, str]:
        """Make the sandbox of a pod; returns it with the name of its network namespace."""
        namespace, path = self.network.pod()
        return Sandbox(pod, f"default/{pod}", path), namespace

    def where(self, namespace: str = "") -> int:
        """Return how many of the interfaces are in a namespace, that of the host if none is given."""
        return sum(bool(seen(name, namespace)) for name in (self.network.name, self.network.peer))

    @property
    def mounts(self) -> set[str]:
        """Return what the containers of the claim mount."""
        return {mount.host_path for mount in self.networks.mounts("c", RDMA).values()}

    def steps(self) -> list[NetworkStep]:
        """Return how far the interfaces are."""
        return sorted(row.step for row in self.node.context.journal.networks())

    async def refusals(self) -> list[str]:
        """Unprepare the claim as often as kubelet does in a while; returns why it was not possible."""
        refused = []
        for _ in range(3):
            try:
                await self.networks.release("c", RDMA)
            except NotReady as error:
                refused.append(str(error))
        return refused

    def on_pci(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[str, str]]:
        """Have the kernel name the PCI devices of the interfaces, and the addresses with which they were made.

        Returns bus id and first MAC address ("": the driver does not tell) by MAC address, which may be changed.
        """
        names = (self.network.name, self.network.peer)
        macs = [seen(name)["mac"] for name in names]
        places = {mac: (place, mac) for mac, place in zip(macs, PLACES, strict=True)}
        get_attr = ifinfmsg.get_attr

        def found(raw: ifinfmsg, name: str) -> object:
            place = places.get(get_attr(raw, "IFLA_ADDRESS"))
            if place is None:
                return get_attr(raw, name)
            more = {
                "IFLA_PARENT_DEV_NAME": place[0],
                "IFLA_PARENT_DEV_BUS_NAME": "pci",
                "IFLA_PERM_ADDRESS": place[1] or None,
            }
            return more[name] if name in more else get_attr(raw, name)

        monkeypatch.setattr(ifinfmsg, "get_attr", found)
        return places

    def reserved_for_second(self) -> None:
        """Let the API say that the claim is reserved for the second pod."""
        about = {"namespace": "default", "name": "c", "uid": "c"}
        self.node.server.put(CLAIMS, {"metadata": about, "status": {"reservedFor": [{"uid": "second"}]}})


@asynccontextmanager
async def rails_below(folder: Path) -> AsyncIterator[Rails]:
    """Make the node, whose first pod has the claim; afterwards nothing of it is left on this machine."""
    host = RdmaHost(folder)
    with host_network() as network:
        host.add("mlx5_0", PLACES[0], link="Ethernet", interface=network.name)
        host.add("mlx5_1", PLACES[1], link="Ethernet", interface=network.peer, guid="1:2:3:4")
        async with one_card(folder, RdmaBackend(folder)) as node:
            cards = node.context.hardware.cards
            devices = tuple(
                ClaimDevice(name, name, "n", ("r0",), f"{RDMA}/claim=c", card_uuid=cards[name].uuid)
                for name in NICS
            )
            node.context.journal.reserve(ClaimRow("c", RDMA, "default", "c", ClaimStep.PREPARED, devices))
            for name, interface in zip(NICS, (network.name, network.peer), strict=True):
                node.context.journal.put_network(
                    NetworkRow("c", RDMA, name, name, "first", interface, WANTED)
                )
            try:
                yield Rails(node, pod_networks(folder, node.context), network, host)
            finally:
                unmount_below(folder)
