"""What the host refuses while an interface goes to a pod or comes back: nobody waits for it for ever."""

import asyncio
import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from pyroute2.netlink.exceptions import NetlinkDumpInterrupted
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from apportion.agent.devices.rdma import sysfs
from apportion.agent.devices.rdma.away import AwayFolder
from apportion.agent.devices.rdma.backend import RdmaBackend
from apportion.agent.network import netlink
from apportion.agent.network.namespaces import inside
from apportion.agent.network.offered import OfferedInterfaces
from apportion.agent.rows import NetworkStep
from apportion.api.contract import NETWORK_DEVICE
from apportion.errors import NotReady
from testbed.eventually import eventually
from testbed.hostnetwork import ip
from tests.agent.lifecycle.onecard import one_card
from tests.agent.places import RDMA
from tests.agent.rdma.rails import NICS, rails_below

pytestmark = pytest.mark.usefixtures("interfaces")

HERE = Path("/proc/self/ns/net")


async def test_the_second_pod_gets_an_interface_that_could_not_be_taken_back_from_the_first(
    tmp_path: Path,
) -> None:
    """Kubelet does not unprepare a claim that another pod has: nobody else would ever bring it back."""
    async with rails_below(tmp_path) as rails:
        rails.reserved_for_second()
        (first, _), (second, namespace) = rails.sandbox("first"), rails.sandbox("second")
        await rails.networks.began(first)
        # Somebody has taken its name on the host meanwhile.
        ip("link", "add", rails.network.name, "type", "veth", "peer", "name", f"{rails.network.peer}x")
        try:
            await rails.networks.ending(first)
        finally:
            ip("link", "delete", rails.network.name)
        assert rails.steps() == [NetworkStep.RETURNING, NetworkStep.WAITING]
        await rails.networks.began(second)
        await rails.networks.creating(second, rails.mounts)
        rows = rails.node.context.journal.networks()
        assert {(row.pod, row.step) for row in rows} == {("second", NetworkStep.MOVED)}
        assert rails.where(namespace) == 2


async def test_a_pod_that_still_runs_without_its_reservation_keeps_its_interface(tmp_path: Path) -> None:
    """It was deleted by force, and its containers use it."""
    async with rails_below(tmp_path) as rails:
        rails.reserved_for_second()
        (first, namespace), (second, _) = rails.sandbox("first"), rails.sandbox("second")
        await rails.networks.began(first)
        with pytest.raises(NotReady, match="is in the network of another pod"):
            await rails.networks.creating(second, rails.mounts)
        assert rails.where(namespace) == 2
        assert {row.pod for row in rails.node.context.journal.networks()} == {"first"}


async def test_a_file_that_cannot_be_written_keeps_one_interface_from_its_pod_and_no_other(
    tmp_path: Path,
) -> None:
    """The runtime gets an answer instead of waiting, and what was missed is made up for with the others."""
    async with rails_below(tmp_path) as rails:
        mounts = {device: Path(mount.host_path) for device, mount in rails.networks.mounts("c", RDMA).items()}
        mounts[NICS[0]].mkdir(parents=True)
        first, _ = rails.sandbox("first")
        with pytest.raises(NotReady, match=f"interface {rails.network.name}: .*Is a directory"):
            await rails.networks.began(first)
        await rails.networks.compare([first])
        assert mounts[NICS[1]].is_file()
        assert not mounts[NICS[0]].is_file()


@pytest.mark.parametrize("which", ["device", "interface"])
async def test_a_pod_gets_no_interface_that_has_the_name_of_its_own_by_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    """A driver that is loaded anew gives names in another order: the other NIC is somebody else's, or the node's."""
    other, get_attr = "0000:fe:00.0", ifinfmsg.get_attr
    # What the kernel says of interfaces of PCI devices; those that can be made here are of none.
    parent = {"IFLA_PARENT_DEV_NAME": other, "IFLA_PARENT_DEV_BUS_NAME": "pci"}
    async with rails_below(tmp_path) as rails:
        if which == "device":
            rails.host.remove("mlx5_0")
            rails.host.add("mlx5_0", other, link="Ethernet", interface=rails.network.name)
        else:
            monkeypatch.setattr(
                ifinfmsg, "get_attr", lambda raw, name: parent.get(name) or get_attr(raw, name)
            )
        first, _ = rails.sandbox("first")
        with pytest.raises(NotReady, match=f"{rails.network.name} were called is at {other} now"):
            await rails.networks.began(first)
        assert rails.where() == 2
        assert rails.steps() == [NetworkStep.WAITING] * 2


async def test_an_agent_that_starts_forgets_no_interface_that_another_one_takes_to_a_pod_meanwhile(
    tmp_path: Path,
) -> None:
    """The host's /sys does not show it: without its file the next agent calls it lost, and its pod has to go."""
    async with (
        rails_below(tmp_path) as rails,
        one_card(tmp_path, RdmaBackend(tmp_path)) as other,
        AsyncExitStack() as taking,
    ):
        away, (_, namespace) = AwayFolder(tmp_path / "away"), rails.sandbox("first")
        for card in NICS:
            await taking.enter_async_context(other.context.lock(card))
        recovering = asyncio.create_task(rails.networks.recover())
        assert await asyncio.wait({recovering}, timeout=0.2) == (set(), {recovering})
        for row in other.context.journal.networks():
            before, device = (
                netlink.read(HERE, row.interface),
                sysfs.read(tmp_path, row.card[4:].replace("-", "_")),
            )
            assert before is not None
            assert device is not None
            ip("link", "set", row.interface, "netns", namespace)
            moved = replace(row, step=NetworkStep.MOVED, before=before.to_json())
            away.put(row.key, device, asdict(moved))
            other.context.journal.put_network(moved)
        await taking.aclose()
        await recovering
        assert len(away.devices()) == 2
        assert rails.steps() == [NetworkStep.MOVED] * 2
        assert rails.where(namespace) == 2


async def test_a_driver_that_hangs_keeps_the_threads_of_nobody_else(tmp_path: Path) -> None:
    """Calls to the kernel wait for it, one for each NIC: with the last thread gone nothing could be written down."""
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    try:
        async with rails_below(tmp_path) as rails:
            first, namespace = rails.sandbox("first")
            with rails.host.hanging("mlx5_0"):
                taking = asyncio.create_task(rails.networks.began(first))
                assert await asyncio.wait({taking}, timeout=0.1) == (set(), {taking})
                async with asyncio.timeout(30):
                    await asyncio.to_thread(rails.node.context.journal.drop_partition, "none")
                assert not taking.done()
            await taking
            assert rails.where(namespace) == 2
    finally:
        # The loop is that of all tests.
        loop.set_default_executor(ThreadPoolExecutor())


async def test_interfaces_that_others_make_meanwhile_keep_none_from_its_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel says that a list is of two moments, and the agent asks once more: on a busy node pods start all the time."""
    asked = itertools.count()

    def interrupted(namespace: Path, act: Callable[[], object]) -> object:
        if next(asked) % 3:
            raise NetlinkDumpInterrupted
        return inside(namespace, act)

    async with rails_below(tmp_path) as rails:
        first, namespace = rails.sandbox("first")
        monkeypatch.setattr(netlink, "inside", interrupted)
        await rails.networks.began(first)
        assert rails.where(namespace) == 2
        assert await rails.refusals() == []
        assert rails.where() == 2


async def test_a_driver_that_hangs_keeps_no_other_interface_from_its_pod(tmp_path: Path) -> None:
    """One walk makes up for what was missed for all pods of the node."""
    async with rails_below(tmp_path) as rails:
        first, namespace = rails.sandbox("first")
        with rails.host.hanging("mlx5_0"):
            comparing = asyncio.create_task(rails.networks.compare([first]))
            # The journal says it a moment after the kernel.
            await eventually(
                lambda: asyncio.to_thread(rails.steps),
                lambda steps: steps == [NetworkStep.MOVED, NetworkStep.WAITING],
            )
            assert await asyncio.to_thread(rails.where, namespace) == 1
            assert await asyncio.wait({comparing}, timeout=30) == ({comparing}, set())
        await eventually(lambda: asyncio.to_thread(rails.where, namespace), lambda found: found == 2)


async def test_a_driver_that_hangs_keeps_no_agent_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody could have GPUs of that node prepared either."""
    going_on, mark = threading.Event(), netlink.mark

    def slow(namespace: Path, index: int, alias: str) -> None:
        if alias == "rail 3":
            going_on.wait(60)
        mark(namespace, index, alias)

    async with rails_below(tmp_path) as rails:
        await rails.networks.began(rails.sandbox("first")[0])
        rails.node.context.journal.drop_claim("c", RDMA)
        monkeypatch.setattr(netlink, "mark", slow)
        try:
            async with asyncio.timeout(30):
                await rails.networks.recover()
            # What is slow is waited for so long only, and the other one may be slow, too.
            await eventually(
                lambda: asyncio.to_thread(rails.steps), lambda steps: steps == [NetworkStep.RETURNING]
            )
        finally:
            going_on.set()
        await eventually(lambda: asyncio.to_thread(rails.steps), lambda found: found == [])


async def test_a_driver_that_hangs_keeps_nobody_from_looking_at_other_cards(tmp_path: Path) -> None:
    """The task that looks which interfaces are offered polls the health of all cards."""

    async def addresses() -> frozenset[str]:
        return frozenset()

    async with rails_below(tmp_path) as rails:
        nic = rails.node.context.hardware.cards[NICS[0]]
        namespace = tmp_path / "namespace"
        os.mkfifo(namespace)
        interfaces = OfferedInterfaces(rails.node.context, namespace, addresses, patience=0.05)
        for _ in range(2):
            async with asyncio.timeout(30):
                assert not await interfaces.look()
        # Who opens the namespace has waited for this until now.
        opened = os.open(namespace, os.O_WRONLY)
        namespace.unlink()
        namespace.symlink_to(HERE)
        os.close(opened)
        await eventually(interfaces.look, bool)
        assert interfaces.described(nic).attributes[NETWORK_DEVICE] is True
