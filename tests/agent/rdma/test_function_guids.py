"""A virtual function gets a GUID, or another one, after the agent has seen it, as SR-IOV operators do: it is there all the time."""

from dataclasses import replace
from pathlib import Path

import pytest

from apportion.agent.devices.rdma.backend import RdmaBackend
from apportion.agent.devices.values import Health
from testbed.eventually import eventually
from testbed.fakes.rdma import RdmaHost
from tests.agent.places import RDMA
from tests.agent.simulatednode import MakeNode

NONE = "0000:0000:0000:0000"
FUNCTION, BUS = "nic-mlx5-2", "0000:9d:00.2"


@pytest.fixture
def host(tmp_path: Path) -> RdmaHost:
    """Give a host with a NIC that has one virtual function, to which the kernel has given no GUID."""
    made = RdmaHost(tmp_path / "root")
    made.add("mlx5_0", "0000:9d:00.0", guid="1:1:1:1")
    made.add("mlx5_2", BUS, guid=NONE, function_of="0000:9d:00.0")
    return made


def give(host: RdmaHost, guid: str, name: str = "mlx5_2") -> None:
    """Give a device a GUID."""
    (host.root / "sys/class/infiniband" / name / "node_guid").write_text(f"{guid}\n", encoding="ascii")


def test_a_function_that_gets_a_guid_is_neither_lost_nor_another_one(host: RdmaHost) -> None:
    """Also before the next discovery: the taint of a lost card would end its pods. Its card names the UUID of before."""
    backend = RdmaBackend(host.root)
    before = {card.name: card for card in backend.devices()}
    files = backend.edits(FUNCTION)
    for guid, uuid, former in (
        ("1:1:1:2", "NIC-1:1:1:2", f"NIC-{BUS}"),
        ("1:1:1:3", "NIC-1:1:1:3", "NIC-1:1:1:2"),
        (NONE, f"NIC-{BUS}", "NIC-1:1:1:3"),
    ):
        give(host, guid)
        assert (backend.health(), backend.edits(FUNCTION)) == ({}, files)
        assert backend.incomplete()
        after = {card.name: card for card in backend.devices()}
        assert after == before | {FUNCTION: replace(before[FUNCTION], uuid=uuid, former_uuid=former)}
        assert (backend.health(), backend.edits(FUNCTION)) == ({}, files)
        assert not backend.incomplete()


def test_a_nic_that_comes_in_the_place_of_another_one_is_not_taken_for_it(host: RdmaHost) -> None:
    """Its GUID is a property of the hardware: containers were given the NIC that has left."""
    host.remove("mlx5_2")
    backend = RdmaBackend(host.root)
    backend.devices()
    give(host, "2:2:2:2", "mlx5_0")
    assert backend.health() == {"nic-mlx5-0": Health.LOST}
    assert not backend.incomplete()
    assert [card.uuid for card in backend.devices()] == ["NIC-1:1:1:1"]


def test_a_nic_whose_guid_is_its_own_at_last_is_there(host: RdmaHost) -> None:
    """Two devices with one GUID are told apart by their bus ids, until one of them is pulled out."""
    host.add("mlx5_4", "0000:2a:00.0", bridge="28", guid="1:1:1:1")
    backend = RdmaBackend(host.root)
    assert [card.uuid for card in backend.devices() if card.name == "nic-mlx5-0"] == ["NIC-0000:9d:00.0"]
    host.remove("mlx5_4")
    assert backend.health() == {"nic-mlx5-4": Health.LOST}
    assert [card.uuid for card in backend.devices() if card.name == "nic-mlx5-0"] == ["NIC-1:1:1:1"]


async def test_a_claim_keeps_a_function_that_gets_a_guid(
    host: RdmaHost, make_node: MakeNode, namespace: str
) -> None:
    """While the agent runs and while none does; kubelet asks anew, and others are kept off, as before."""
    async with make_node(nics=[{"name": "mlx5-0", "pcieRoot": "pci0000:9b"}]) as node:
        node.options = replace(node.options, backend="rdma", host_root=host.root)

        async def published() -> object:
            found = (await node.devices(RDMA)).get(FUNCTION)  # the agent prepares before it has published
            return found["attributes"].get("uuid") if found is not None else None

        async with node.agent():
            claim = await node.claim(namespace, "runs", FUNCTION, driver=RDMA)
            other = await node.claim(namespace, "other", FUNCTION, driver=RDMA)
            assert await node.prepared(claim, driver=RDMA) == ""
            give(host, "1:1:1:2")
            await eventually(published, lambda found: found == {"string": "NIC-1:1:1:2"}, within=20)
            assert await node.prepared(claim, driver=RDMA) == ""
            await node.unprepare(claim, driver=RDMA)
            assert await node.prepared(claim, driver=RDMA) == ""
            give(host, NONE)
            await eventually(published, lambda found: found == {"string": f"NIC-{BUS}"}, within=20)
        give(host, "1:1:1:4")
        async with node.agent():
            assert await node.prepared(claim, driver=RDMA) == ""
            assert "is held by" in await node.prepared(other, driver=RDMA)
            await node.unprepare(claim, driver=RDMA)
            assert await node.prepared(other, driver=RDMA) == ""


async def test_a_lost_journal_keeps_a_function_with_its_claim_whose_guid_came_meanwhile(
    host: RdmaHost, make_node: MakeNode, namespace: str
) -> None:
    """The files of the claim name the function's bus id: it would be given to the next claim, under running containers."""
    async with make_node(nics=[{"name": "mlx5-0", "pcieRoot": "pci0000:9b"}]) as node:
        node.options = replace(node.options, backend="rdma", host_root=host.root)
        claim = await node.claim(namespace, "runs", FUNCTION, driver=RDMA)
        async with node.agent():
            assert await node.prepared(claim, driver=RDMA) == ""
        for path in node.options.state_dir.glob("journal.db*"):
            path.unlink()
        give(host, "1:1:1:2")
        async with node.agent():
            other = await node.claim(namespace, "other", FUNCTION, driver=RDMA)
            assert "is held by" in await node.prepared(other, driver=RDMA)
