"""SR-IOV: a NIC and its virtual functions are offered so that nobody gets a function of a NIC that somebody else has whole."""

from pathlib import Path

import pytest

from apportion.agent.devices.rdma.backend import RdmaBackend
from apportion.agent.slices.nodeinventory import NodeInventory
from apportion.agent.slices.pool import pools
from testbed.api import Json
from testbed.fakes.rdma import RdmaHost
from tests.agent.places import DRIVERS, RDMA
from tests.agent.simulatednode import SimulatedNode

COUNTER = "virtual-functions"


@pytest.fixture
def host(tmp_path: Path) -> RdmaHost:
    """Give a host with a NIC that has two virtual functions, and one that has none."""
    made = RdmaHost(tmp_path / "root")
    made.add("mlx5_0", "0000:9d:00.0", guid="1:1:1:1", link="Ethernet", interface="rail0")
    made.add("mlx5_1", "0000:1a:00.0", bridge="18", guid="2:2:2:2", interface="rail1")
    for number in (2, 3):
        made.add(f"mlx5_{number}", f"0000:9d:00.{number}", guid=f"1:1:1:{number}", function_of="0000:9d:00.0")
    return made


def published(inventory: NodeInventory) -> tuple[dict[str, Json], dict[str, Json]]:
    """Return devices and counter sets by name."""
    (pool,) = pools(inventory, DRIVERS)
    rows = {field: [row for part in pool.contents if part.field == field for row in part.rows]
            for field in ("devices", "sharedCounters")}  # fmt: skip
    devices, sets = rows["devices"], rows["sharedCounters"]
    return {row["name"]: row for row in devices}, {row["name"]: row["counters"] for row in sets}


def test_a_nic_takes_all_its_functions_and_a_function_one(host: RdmaHost) -> None:
    """By shared counters (KEP-4815), so every scheduler keeps to it; a NIC without functions has none."""
    devices, sets = published(NodeInventory(RdmaBackend(host.root).devices()))
    assert sets == {"nic-mlx5-0-counter-set": {COUNTER: {"value": "2"}}}

    def takes(count: str) -> list[Json]:
        return [{"counterSet": "nic-mlx5-0-counter-set", "counters": {COUNTER: {"value": count}}}]

    assert {name: row.get("consumesCounters") for name, row in devices.items()} == {
        "nic-mlx5-0": takes("2"),
        "nic-mlx5-1": None,
        "nic-mlx5-2": takes("1"),
        "nic-mlx5-3": takes("1"),
    }


def test_a_function_that_is_made_later_counts_for_its_nic(host: RdmaHost) -> None:
    """Functions are made while the agent runs (`sriov_numvfs`)."""
    backend = RdmaBackend(host.root)
    backend.devices()
    host.add("mlx5_4", "0000:9d:00.4", guid="1:1:1:4", function_of="0000:9d:00.0")
    assert backend.incomplete()
    _, sets = published(NodeInventory(backend.devices()))
    assert sets["nic-mlx5-0-counter-set"] == {COUNTER: {"value": "3"}}


def test_a_function_of_a_nic_that_is_not_offered_stands_alone(tmp_path: Path) -> None:
    """A virtual machine has functions only; a counter set that nobody publishes would make the whole pool invalid."""
    host = RdmaHost(tmp_path)
    host.add("mlx5_2", "0000:9d:00.2", guid="1:1:1:2", function_of="0000:9d:00.0")
    devices, sets = published(NodeInventory(RdmaBackend(host.root).devices()))
    assert sets == {}
    assert "consumesCounters" not in devices["nic-mlx5-2"]


def test_what_claims_have_lost_and_still_use_is_not_counted_as_free(host: RdmaHost) -> None:
    """A function whose pod was deleted by force keeps its NIC from being offered whole; a NIC keeps all its functions."""
    cards = RdmaBackend(host.root).devices()
    for held, left in (("nic-mlx5-2", "1"), ("nic-mlx5-0", "0"), ("nic-mlx5-1", "2")):
        _, sets = published(NodeInventory(cards, blocked=frozenset({held})))
        assert sets["nic-mlx5-0-counter-set"] == {COUNTER: {"value": left}}, held


async def test_a_function_is_not_prepared_while_its_nic_is_nor_a_nic_while_its_function_is(
    host: RdmaHost, node: SimulatedNode, namespace: str
) -> None:
    """By whom they were allocated does not matter: the claim that came first is named. Functions do not hinder each other."""

    async def error(claim: Json) -> str:
        answers = await node.prepare(claim, driver=RDMA)
        said: str = answers[claim["metadata"]["uid"]].error
        return said

    whole = await node.claim(namespace, "whole", "nic-mlx5-0", driver=RDMA)
    one, two = [
        await node.claim(namespace, f"part-{number}", f"nic-mlx5-{number}", driver=RDMA) for number in (2, 3)
    ]
    assert await error(whole) == ""
    assert "nic-mlx5-2 is held by ResourceClaim" in await error(one)
    await node.unprepare(whole, driver=RDMA)
    assert await error(one) == await error(two) == ""
    assert "nic-mlx5-0 is held by ResourceClaim" in await error(whole)
