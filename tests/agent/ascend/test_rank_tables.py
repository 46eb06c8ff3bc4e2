"""HCCL's rank table: which chip has which rank, and what a container finds of it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from apportion.agent.devices.ascend.ranktable import RankTables
from apportion.agent.kubelet.metadata import DeviceDescription, MetadataFolder
from apportion.dra.claim import Claim
from testbed.api import Json
from tests.agent.places import NPU
from tests.agent.simulatednode import MakeNode, SimulatedNode

CLAIM = Claim("team", "mine", uid="7b0c5c5e-1111-4222-8333-444455556666")


def addresses(root: Path, *chips: int) -> Path:
    """Write the addresses of these chips as hccn_tool does; returns the root."""
    (root / "etc").mkdir()
    rows = [f"address_{chip}=192.168.10{chip}.101\nnetmask_{chip}=255.255.255.0\n" for chip in chips]
    (root / "etc/hccn.conf").write_text("".join(rows))
    return root


def test_ranks_follow_the_rings(tmp_path: Path) -> None:
    """Chips of one HCCS group follow each other, groups and chips by their physical ids, not by their names' letters."""
    groups = {"npu-10": "b", "npu-2": "a", "npu-9": "b", "npu-1": "a", "npu-11": "b", "npu-3": ""}
    table = RankTables(tmp_path, "n").table(groups)
    assert table is not None
    assert [*table.ranks] == ["npu-1", "npu-2", "npu-3", "npu-9", "npu-10", "npu-11"]
    crossed = RankTables(tmp_path, "n").table({"npu-0": "a", "npu-1": "b", "npu-2": "a", "npu-3": "b"})
    assert crossed is not None
    assert [*crossed.ranks] == ["npu-0", "npu-2", "npu-1", "npu-3"]


def test_the_table_is_hccls(tmp_path: Path) -> None:
    """Template 1.0: all values are text, the physical id and the address of the chip's own NIC."""
    table = RankTables(addresses(tmp_path, 4, 5, 6), "node-a").table({"npu-5": "", "npu-4": ""})
    assert table is not None
    assert json.loads(table.text) == {
        "status": "completed",
        "version": "1.0",
        "server_count": "1",
        "server_list": [
            {
                "server_id": "node-a",
                "device": [
                    {"device_id": "4", "device_ip": "192.168.104.101", "rank_id": "0"},
                    {"device_id": "5", "device_ip": "192.168.105.101", "rank_id": "1"},
                ],
            }
        ],
    }
    assert table.lacking == ""


def test_what_a_table_lacks_for_several_servers_is_said(tmp_path: Path) -> None:
    """Without addresses it serves one server; nothing is made up."""
    table = RankTables(addresses(tmp_path, 0), "n").table({"npu-0": "", "npu-1": ""})
    assert table is not None
    assert table.lacking == "one server only: /etc/hccn.conf has no address of npu-1"
    (server,) = json.loads(table.text)["server_list"]
    assert [row.get("device_ip") for row in server["device"]] == ["192.168.100.101", None]


def test_a_long_node_name_makes_a_short_server_id(tmp_path: Path) -> None:
    """HCCL takes fewer than 64 characters, and different ones for different servers."""
    ids = set()
    for name in ("n" * 64, "n" * 65, "n" * 63):
        table = RankTables(tmp_path, name).table({"npu-0": "", "npu-1": ""})
        assert table is not None
        ids.add(json.loads(table.text)["server_list"][0]["server_id"])
    assert len(ids) == 3
    assert max(map(len, ids)) == 63


def described(device: str, **more: str | int) -> DeviceDescription:
    """Return a device as prepare describes it."""
    known = {"type": "npu", **more}
    typed = {name: {"int" if isinstance(value, int) else "string": value} for name, value in known.items()}
    return DeviceDescription(("r",), "n", device, typed)


@pytest.mark.parametrize(
    "devices",
    [
        [described("npu-0")],
        [described("npu-0"), described("npu-1-vir02-0", type="vnpu")],
        [described("npu-0", superPodId=1), described("npu-1", superPodId=1)],
    ],
    ids=["one chip", "a part", "super pod"],
)
def test_other_devices_have_no_table(tmp_path: Path, devices: list[DeviceDescription]) -> None:
    """One chip has nobody to talk to; parts have no ring; a super pod has a template of its own."""
    folder = MetadataFolder(tmp_path, NPU, RankTables(tmp_path, "n"))
    assert [len(mounts) for mounts in folder.write(CLAIM, devices).values()] == [1]


def test_a_driver_without_npus_has_no_table(tmp_path: Path) -> None:
    """NCCL finds its rings by itself."""
    mounts = MetadataFolder(tmp_path, "d").write(CLAIM, [described("npu-0"), described("npu-1")])
    assert len(mounts["r"]) == 1


async def test_a_container_finds_the_table_of_its_npus(
    make_node: MakeNode, namespace: str, tmp_path: Path
) -> None:
    """Beside the metadata file, which has the devices in the order of their ranks, and says what the table is good for."""
    async with make_node(cards=[{"model": "910A", "count": 8}]) as node:
        node.options = replace(node.options, host_root=addresses(tmp_path, *range(8)))
        async with node.agent():
            claim = await claim_of_one_request(node, namespace, "npu-4", "npu-1")
            assert await node.prepared(claim, driver=NPU) == ""
            found = files(node)
            assert set(found) == {f"{NPU}-metadata.json", f"{NPU}-rank-table.json"}
            table = found[f"{NPU}-rank-table.json"]
            assert [row["device_id"] for row in table["server_list"][0]["device"]] == ["1", "4"]
            devices = found[f"{NPU}-metadata.json"]["requests"][0]["devices"]
            assert [device["name"] for device in devices] == ["npu-1", "npu-4"]
            assert devices[1]["attributes"]["hcclRank"] == {"int": 1}
            assert devices[1]["attributes"]["deviceIP"] == {"string": "192.168.104.101"}
            assert devices[1]["attributes"]["rankTable"] == {"string": "several servers"}
            await node.unprepare(claim, driver=NPU)
            assert not list(node.folder.glob("p/**/rank-table.json"))


def files(node: SimulatedNode) -> dict[str, Json]:
    """Return what the mounted files of the only claim say, by their names in the container."""
    (cdi,) = node.cdi().values()
    rows = cdi["devices"][0]["containerEdits"]["mounts"]
    decoder = json.JSONDecoder()
    return {
        row["containerPath"].rpartition("/")[2]: decoder.raw_decode(Path(row["hostPath"]).read_text())[0]
        for row in rows
    }


async def claim_of_one_request(node: SimulatedNode, namespace: str, *devices: str) -> Json:
    """Make a claim of one request that is allocated to all these devices, as a count does."""
    made = await node.ask(namespace, "ring", len(devices))
    return await node.allocate(made, *devices, driver=NPU, request="r0")
