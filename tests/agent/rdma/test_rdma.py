"""RDMA devices from a host's /sys: what is published of them, what a container gets, how they fare."""

from pathlib import Path

import pytest

from apportion.agent.backends import backends
from apportion.agent.devices.rdma.backend import RdmaBackend
from apportion.agent.devices.values import (
    CardKind,
    DeviceNode,
    Health,
    LivePartition,
    PartitionPlace,
    Placement,
)
from apportion.agent.settings import AgentOptions
from apportion.agent.slices.nodeinventory import NodeInventory
from apportion.agent.slices.pool import pools
from apportion.errors import BrokenInput, Unsupported
from testbed.api import Json
from testbed.eventually import eventually
from testbed.fakes.rdma import RdmaHost
from tests.agent.places import DRIVERS, RDMA
from tests.agent.simulatednode import SimulatedNode


@pytest.fixture
def host(tmp_path: Path) -> RdmaHost:
    """Give a host with an InfiniBand and an Ethernet NIC on different roots."""
    made = RdmaHost(tmp_path / "root")
    made.add("mlx5_0", "0000:9d:00.0", interface="ib0")
    made.add(
        "mlx5_10", "0000:1a:00.0", bridge="18", numa=0, link="Ethernet", rate="100 Gb/sec (4X EDR)",
        guid="946d:ae03:00a3:1b2d", interface="eth2",
    )  # fmt: skip
    return made


def test_a_nic_has_its_place_and_says_what_it_is(host: RdmaHost) -> None:
    """PcieRoot and numaNode are what joins it with GPUs and NPUs."""
    first, second = RdmaBackend(host.root).devices()
    assert (first.name, first.kind, first.uuid) == ("nic-mlx5-0", CardKind.NIC, "NIC-946d:ae03:00a3:1b2c")
    assert (first.location.pci_bus_id, first.location.pcie_root, first.location.numa_node) == (
        "0000:9d:00.0", "pci0000:9b", 1,
    )  # fmt: skip
    assert first.attributes == {
        "rdma": True,
        "rdmaDevice": "mlx5_0",
        "linkType": "infiniband",
        "gigabitsPerSecond": 400,
        "model": "MT4129",
        "firmwareVersion": "28.39.1002",
        "interface": "ib0",
        "virtualFunction": False,
    }
    assert (second.name, second.attributes["linkType"], second.attributes["gigabitsPerSecond"]) == (
        "nic-mlx5-10", "ethernet", 100,
    )  # fmt: skip


def test_a_container_gets_the_devices_own_files_and_the_common_one(host: RdmaHost) -> None:
    """Verbs, management datagrams, connection manager, with numbers; never what would make it a subnet manager."""
    backend = RdmaBackend(host.root)
    _, second = backend.devices()
    assert backend.edits(second.name).nodes == (
        DeviceNode("/dev/infiniband/uverbs1", major=231, minor=193),
        DeviceNode("/dev/infiniband/umad1", major=231, minor=1),
        DeviceNode("/dev/infiniband/rdma_cm", major=10, minor=122),
    )


def test_virtual_functions_are_devices_of_their_own(host: RdmaHost) -> None:
    """They name their NIC; those that have its GUID are told apart by their bus ids."""
    for number in (1, 2):
        host.add(
            f"mlx5_{number}", f"0000:9d:00.{number}", guid="946d:ae03:00a3:1b2c", function_of="0000:9d:00.0"
        )
    cards = {card.name: card for card in RdmaBackend(host.root).devices()}
    assert list(cards) == ["nic-mlx5-0", "nic-mlx5-1", "nic-mlx5-2", "nic-mlx5-10"]
    function = cards["nic-mlx5-1"]
    assert (function.attributes["virtualFunction"], function.attributes["physicalFunction"]) == (
        True, "0000:9d:00.0",
    )  # fmt: skip
    assert function.uuid == "NIC-0000:9d:00.1"
    assert len({card.uuid for card in cards.values()}) == 4


def test_a_nic_stays_what_it_is_when_its_functions_are_made(host: RdmaHost) -> None:
    """They may have its GUID. A NIC that counted as lost would cost its pod the node, until an agent starts anew."""
    backend = RdmaBackend(host.root)
    before = {card.name: card.uuid for card in backend.devices()}
    host.add("mlx5_1", "0000:9d:00.1", guid="946d:ae03:00a3:1b2c", function_of="0000:9d:00.0")
    assert backend.incomplete()
    after = {card.name: card.uuid for card in backend.devices()}
    assert after == before | {"nic-mlx5-1": "NIC-0000:9d:00.1"}
    assert backend.health() == {}
    assert len(backend.edits("nic-mlx5-0").nodes) == 3


def test_what_is_not_known_is_not_published(tmp_path: Path) -> None:
    """No NUMA node, no GUID, no interface: no attribute, instead of one that matches others' ignorance."""
    host = RdmaHost(tmp_path)
    host.add("mlx5_0", "0000:9d:00.0", numa=-1, guid="0000:0000:0000:0000")
    soft = tmp_path / "sys" / "class" / "infiniband" / "rxe0"
    (soft / "ports" / "1").mkdir(parents=True)
    first, second = RdmaBackend(tmp_path).devices()
    assert (first.uuid, second.uuid) == ("NIC-0000:9d:00.0", "NIC-rxe0")
    (pool,) = pools(NodeInventory((first, second)), DRIVERS)
    published = [set(row["attributes"]) for row in pool.contents[0].rows]
    assert "resource.kubernetes.io/pcieRoot" in published[0]
    assert not {"resource.kubernetes.io/numaNode", "interface"} & published[0]
    assert not {"resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/pciBusID"} & published[1]


def test_a_port_without_a_link_makes_it_sick_and_a_pulled_nic_is_lost(host: RdmaHost) -> None:
    """The first comes back with its link; one active port of two is enough."""
    host.add("mlx5_20", "0000:2a:00.0", bridge="28", guid="1:2:3:4", ports=2)
    backend = RdmaBackend(host.root)
    backend.devices()
    assert backend.health() == {}
    host.set_port("mlx5_20", "1: DOWN", port=2)
    host.set_port("mlx5_0", "1: DOWN")
    assert backend.health() == {"nic-mlx5-0": Health.SICK}
    host.set_port("mlx5_0", "4: ACTIVE")
    host.remove("mlx5_10")
    assert backend.health() == {"nic-mlx5-10": Health.LOST}


def test_nothing_of_it_can_be_cut(host: RdmaHost) -> None:
    """Every verb of the protocol has an answer."""
    backend = RdmaBackend(host.root)
    place = PartitionPlace("nic-mlx5-0", "half", Placement(0, 1))
    assert backend.partitions() == backend.partitions_of("nic-mlx5-0") == ()
    backend.make_whole("nic-mlx5-0")
    with pytest.raises(Unsupported, match="cannot be cut"):
        backend.create(place)
    with pytest.raises(Unsupported, match="cannot be cut"):
        backend.destroy(LivePartition(place.card, place.profile, place.placement, ""))


def test_it_stands_beside_others_and_alone(host: RdmaHost, tmp_path: Path) -> None:
    """By name, in a list with others, and by `auto` where the node has such a device."""
    (alone,) = backends(AgentOptions(node="n", backend="rdma", host_root=host.root))
    assert isinstance(alone, RdmaBackend)
    file = tmp_path / "simulation.yaml"
    file.write_text("cards: [{model: 910B4}]")
    both = backends(AgentOptions(node="n", backend="simulated,rdma", simulation=file, host_root=host.root))
    assert [card.name for backend in both for card in backend.devices()] == [
        "npu-0", "nic-mlx5-0", "nic-mlx5-10",
    ]  # fmt: skip
    assert not RdmaBackend(tmp_path / "elsewhere").present()
    assert RdmaBackend(tmp_path / "elsewhere").devices() == ()
    for name, why in (("rdma,magic", "unknown backend 'magic'"), ("auto,rdma", "auto stands alone")):
        with pytest.raises(BrokenInput, match=why):
            backends(AgentOptions(node="n", backend=name))


async def test_a_nics_files_are_those_of_its_card_after_a_reload_of_the_driver(
    host: RdmaHost, node: SimulatedNode, namespace: str
) -> None:
    """Numbers, and even names, are given anew in another order; the claim's UUID says which NIC it is."""
    before, after, renamed = [await node.claim(namespace, name, "nic-mlx5-0", driver=RDMA) for name in "abc"]
    uuid = "NIC-946d:ae03:00a3:1b2c"
    assert await given(node, before) == (uuid, "uverbs0", 192)
    host.reload("mlx5_10", "mlx5_0")

    async def renewed() -> tuple[str, str, int]:
        return nic_file(node, before)

    assert await eventually(renewed, lambda found: found == (uuid, "uverbs1", 193))
    await node.unprepare(before, driver=RDMA)
    assert await given(node, after) == (uuid, "uverbs1", 193)
    await node.unprepare(after, driver=RDMA)
    for name in ("mlx5_0", "mlx5_10"):
        host.remove(name)
    host.add("mlx5_0", "0000:1a:00.0", bridge="18", numa=0, guid="946d:ae03:00a3:1b2d")
    host.add("mlx5_10", "0000:9d:00.0", guid="946d:ae03:00a3:1b2c")
    assert await given(node, renamed) == (uuid, "uverbs3", 195)


async def given(node: SimulatedNode, claim: Json) -> tuple[str, str, int]:
    """Prepare a claim, and return what its file gives."""
    assert await node.prepared(claim, driver=RDMA) == ""
    return nic_file(node, claim)


def nic_file(node: SimulatedNode, claim: Json) -> tuple[str, str, int]:
    """Return the UUID that a claim's file names, and its verbs file with the minor."""
    (file,) = (file for name, file in node.cdi().items() if claim["metadata"]["uid"] in name)
    edits = file["devices"][0]["containerEdits"]
    (uuid,) = (text.partition("=")[2] for text in edits["env"] if text.startswith("APPORTION_R0_UUID="))
    verbs = edits["deviceNodes"][0]
    return uuid, verbs["path"].rpartition("/")[2], verbs["minor"]


async def test_a_nic_whose_driver_comes_later_is_published_and_one_that_is_gone_stays(
    host: RdmaHost, node: SimulatedNode
) -> None:
    """The first is new, what becomes of the second is unknown: it counts as lost."""
    host.remove("mlx5_10")
    host.add("mlx5_11", "0000:2a:00.0", bridge="28", guid="1:2:3:4")

    async def published() -> dict[str, list[str]]:
        return {
            name: [taint.get("value", "") for taint in device["taints"]]
            for name, device in (await node.devices(RDMA)).items()
        }

    def both(devices: dict[str, list[str]]) -> bool:
        return "nic-mlx5-11" in devices and "lost" in devices["nic-mlx5-10"]

    assert "lost" not in (await eventually(published, both))["nic-mlx5-11"]


async def test_the_node_says_once_whether_rdma_devices_go_into_pods(
    host: RdmaHost, node: SimulatedNode
) -> None:
    """It is a setting of the kernel, and decides what a claim without NetworkConfig is good for."""
    (event,) = await eventually(lambda: node.events("RdmaNamespaceMode"), bool)
    assert event["type"] == "Normal"
    assert "shared: every container sees all RDMA devices" in event["message"]
    host.set_namespaces("exclusive")
    found = await eventually(lambda: node.events("RdmaNamespaceMode"), lambda found: len(found) == 2)
    (changed,) = (each for each in found if each["message"] != event["message"])
    assert "claims with NetworkConfig move them" in changed["message"]
    assert sum(each.get("count", 1) for each in found) == 2
