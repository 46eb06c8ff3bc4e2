"""What the host refuses while an interface goes to a pod or comes back, without a real interface: nobody waits for it for ever."""

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from apportion.agent.devices.rdma.away import AwayFolder
from apportion.agent.devices.rdma.sysfs import RdmaDevice
from apportion.agent.devices.values import CardKind
from apportion.agent.network import offered
from apportion.agent.network.interface import Interface
from apportion.agent.network.moves import Moves
from apportion.agent.network.namespaces import Namespaces
from apportion.agent.network.nri import Sandbox
from apportion.agent.network.offered import OfferedInterfaces
from apportion.agent.network.podnetworks import PodNetworks
from apportion.agent.rows import NetworkRow, NetworkStep
from apportion.api.contract import NETWORK_DEVICE
from apportion.cluster.client import Object
from apportion.errors import NotReady
from tests.agent.lifecycle.onecard import OneCard, one_card
from tests.agent.places import GPU, H100, MakeBackend
from tests.agent.rdma.podnetworksbelow import pod_networks

BEFORE = Interface(7, "eth9", "02:00:00:00:00:01", 1500, up=True)
NO_DEVICE = RdmaDevice("mlx5_0", "", "", "", "", (), (), "", ())
WANTED = '{"apiVersion": "config.apportion.dev/v1alpha1", "kind": "NetworkConfig"}'
FIRST, SECOND = (Sandbox(pod, f"default/{pod}", "/proc/self/ns/net") for pod in ("first", "second"))


class Host:
    """The host's network: which row's interface is in a pod, and what it refuses next."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.there: set[str] = set()
        self.refusals: list[Exception] = []
        patch.setattr(Moves, "take", lambda _, row, *__: self._act(self.there.add, row))
        patch.setattr(Moves, "bring_back", lambda _, row: self._act(self.there.discard, row))
        patch.setattr(Moves, "read", lambda *_: BEFORE)
        patch.setattr(Moves, "device", lambda *_: NO_DEVICE)
        patch.setattr(Namespaces, "is_pinned", lambda _, key: key in self.there)
        patch.setattr(Namespaces, "same", lambda *_: True)

    def _act(self, act: object, row: NetworkRow) -> bool:
        if self.refusals:
            raise self.refusals.pop()
        assert callable(act)
        act(row.key)
        return True


def reserved_for_second(node: OneCard, patch: pytest.MonkeyPatch) -> None:
    """Let the API say that the claim is reserved for the second pod."""

    async def get(*_: object, **__: str) -> Object:
        return {"status": {"reservedFor": [{"uid": "second"}]}}

    patch.setattr(node.api, "get", get)


@asynccontextmanager
async def networks_of(folder: Path, make_backend: MakeBackend) -> AsyncIterator[tuple[OneCard, PodNetworks]]:
    """Give the networks of a node, with a prepared claim that has two interfaces."""
    async with one_card(folder, make_backend(cards=[H100 | {"count": 2}])) as node:
        networks = pod_networks(folder, node.context)
        node.prepared("c", "gpu-0")
        for card in ("gpu-0", "gpu-1"):
            node.context.journal.put_network(NetworkRow("c", GPU, card, card, "first", "eth9", WANTED))
        yield node, networks


async def test_the_second_pod_gets_an_interface_that_could_not_be_taken_back_from_the_first(
    tmp_path: Path, make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kubelet does not unprepare a claim that another pod has: nobody else would ever bring it back."""
    host = Host(monkeypatch)
    async with networks_of(tmp_path, make_backend) as (node, networks):
        reserved_for_second(node, monkeypatch)
        await networks.began(FIRST)
        host.refusals = [NotReady("interfaces changed while they were read")]
        await networks.ending(FIRST)
        steps = {row.device: row.step for row in node.context.journal.networks()}
        assert sorted(steps.values()) == [NetworkStep.RETURNING, NetworkStep.WAITING]
        mounts = {mount.host_path for mount in networks.mounts("c", GPU).values()}
        await networks.began(SECOND)
        await networks.creating(SECOND, mounts)
        assert {(row.pod, row.step) for row in node.context.journal.networks()} == {
            ("second", NetworkStep.MOVED)
        }


async def test_a_pod_that_still_runs_without_its_reservation_keeps_its_interface(
    tmp_path: Path, make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was deleted by force, and its containers use it."""
    host = Host(monkeypatch)
    async with networks_of(tmp_path, make_backend) as (node, networks):
        reserved_for_second(node, monkeypatch)
        await networks.began(FIRST)
        mount = networks.mounts("c", GPU)["gpu-0"]
        with pytest.raises(NotReady, match="is in the network of another pod"):
            await networks.creating(SECOND, {mount.host_path})
        assert len(host.there) == 2
        assert {row.pod for row in node.context.journal.networks()} == {"first"}


async def test_a_full_disk_keeps_one_interface_from_its_pod_and_no_other(
    tmp_path: Path, make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runtime gets an answer instead of waiting, and what was missed is made up for with the others."""
    host = Host(monkeypatch)
    async with networks_of(tmp_path, make_backend) as (node, networks):
        full = OSError(28, "No space left on device")
        host.refusals = [full]
        with pytest.raises(NotReady, match="No space left on device"):
            await networks.began(FIRST)
        for row in node.context.journal.networks():
            node.context.journal.put_network(replace(row, step=NetworkStep.WAITING))
        host.refusals = [full]
        await networks.compare([FIRST])
        assert len(host.there) == 1


@pytest.mark.parametrize("which", ["device", "interface"])
async def test_a_pod_gets_no_interface_that_has_the_name_of_its_own_by_now(
    tmp_path: Path, make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    """A driver that is loaded anew gives names in another order: the other NIC is somebody else's, or the node's."""
    host, other = Host(monkeypatch), "0000:fe:00.0"
    if which == "device":
        monkeypatch.setattr(Moves, "device", lambda *_: replace(NO_DEVICE, pci_bus_id=other))
    else:
        monkeypatch.setattr(Moves, "read", lambda *_: replace(BEFORE, parent=other))
    async with networks_of(tmp_path, make_backend) as (node, networks):
        with pytest.raises(NotReady, match=f"eth9 were called is at {other} now"):
            await networks.began(FIRST)
        assert host.there == set()
        assert {row.step for row in node.context.journal.networks()} == {NetworkStep.WAITING}


async def test_an_agent_that_starts_forgets_no_interface_that_another_one_takes_to_a_pod_meanwhile(
    tmp_path: Path, make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host's /sys does not show it: without its file the next agent calls it lost, and its pod has to go."""
    Host(monkeypatch)
    async with networks_of(tmp_path, make_backend) as (node, networks):
        away, rows = AwayFolder(tmp_path / "away"), AwayFolder.rows

        def meanwhile(folder: AwayFolder) -> dict[str, dict[str, str]]:
            for row in node.context.journal.networks():
                moved = replace(row, step=NetworkStep.MOVED, before=BEFORE.to_json())
                away.put(row.key, NO_DEVICE, asdict(moved))
                node.context.journal.put_network(moved)
            return rows(folder)

        monkeypatch.setattr(AwayFolder, "rows", meanwhile)
        monkeypatch.setattr(Moves, "on_host", lambda *_: False)
        await networks.recover()
        assert len(away.devices()) == 2
        assert {row.step for row in node.context.journal.networks()} == {NetworkStep.MOVED}


async def test_a_driver_that_hangs_keeps_the_threads_of_nobody_else(
    tmp_path: Path, make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls to the kernel wait for it, one for each NIC: with the last thread gone nothing could be written down."""
    Host(monkeypatch)
    hangs = threading.Event()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    monkeypatch.setattr(Moves, "read", lambda *_: hangs.wait(5) and BEFORE)
    async with networks_of(tmp_path, make_backend) as (node, networks):
        taking = asyncio.create_task(networks.began(FIRST))
        await asyncio.sleep(0.05)
        async with asyncio.timeout(2):
            await asyncio.to_thread(node.context.journal.drop_partition, "none")
        hangs.set()
        await taking


async def test_a_driver_that_hangs_keeps_nobody_from_looking_at_other_cards(
    tmp_path: Path, make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task that looks which interfaces are offered polls the health of all cards."""
    hangs = threading.Event()
    monkeypatch.setattr(offered, "host_needs", lambda *_: {"eth9": ""} if hangs.wait(5) else {})

    async def addresses() -> frozenset[str]:
        return frozenset()

    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        (card,) = node.context.hardware.cards.values()
        nic = replace(card, kind=CardKind.NIC, attributes={"interface": "eth9"})
        node.context.hardware.cards = {nic.name: nic}
        interfaces = OfferedInterfaces(node.context, tmp_path, addresses, patience=0.05)
        for _ in range(2):
            async with asyncio.timeout(2):
                assert not await interfaces.look()
        hangs.set()
        await asyncio.sleep(0.05)
        assert await interfaces.look()
        assert interfaces.described(nic).attributes[NETWORK_DEVICE] is True
