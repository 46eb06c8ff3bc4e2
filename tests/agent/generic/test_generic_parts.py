"""Parts of a generic card: either the card is given away or its parts are, and each part has what its own files say."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.agent.devices.generic.backend import GenericBackend
from apportion.agent.devices.generic.kind import DeviceKind
from apportion.agent.devices.names import UnkeptNames
from apportion.agent.devices.values import Card, DeviceNode, Health, Location
from apportion.agent.slices.nodeinventory import NodeInventory
from apportion.agent.slices.pool import pools
from apportion.errors import Lost
from testbed.api import Json
from testbed.eventually import eventually
from testbed.fakes.fpga import FpgaHost
from tests.agent.generic.places import FIRST, FPGA, SECOND, backend_of, check_limits, described
from tests.agent.generic.test_generic_agent import configure, prepared, served
from tests.agent.places import H100
from tests.agent.simulatednode import MakeNode

REGION = {
    "type": "region",
    "sysfs": "fpga_region/*",
    "attributes": {"compatID": {"file": "compat_id"}},
    "nodes": [{"sysfs": "."}],
    "env": {"EXAMPLE_REGION": "{card}/{name} of {pci}"},
    "health": {"file": "state", "healthy": "ready"},
}
SESSIONS = {
    "capacity": {"sessions": {"file": "regions", "scale": 8}},
    "parts": [
        {"type": "small", "count": 4, "takes": {"sessions": 8}, "env": {"SESSIONS": "{name}"}},
        {"type": "large", "count": 2, "takes": {"sessions": 16}},
    ],
}
"""A card of 32 sessions, which are given away in eights and sixteens."""


def published(inventory: NodeInventory) -> tuple[dict[str, Json], dict[str, Json]]:
    """Return devices and counter sets by name."""
    (pool,) = pools(inventory, {"fpga": FPGA})
    rows = {field: [row for part in pool.contents if part.field == field for row in part.rows]
            for field in ("devices", "sharedCounters")}  # fmt: skip
    devices, sets = rows["devices"], rows["sharedCounters"]
    return {row["name"]: row for row in devices}, {row["name"]: row["counters"] for row in sets}


def taken(device: Json) -> dict[str, str]:
    """Return what a device takes from its card's counters."""
    found: list[Json] = device.get("consumesCounters", [])
    return {name: each["value"] for row in found for name, each in row["counters"].items()}


def by_name(backend: GenericBackend) -> dict[str, Card]:
    """Return the backend's cards and parts."""
    return {card.name: card for card in backend.devices()}


def test_each_region_of_a_card_is_a_device_with_its_own_facts_and_files(host: FpgaHost) -> None:
    """It is where its card is, and says which card that is; the card has what it had."""
    alone = by_name(backend_of(host.root))
    host.divide(FIRST, "region0", "region1")
    backend = backend_of(host.root, parts=[REGION])
    found = by_name(backend)
    assert {name: found[name].attributes for name in alone} == {
        name: alone[name].attributes for name in alone
    }
    assert [*found] == ["fpga-0", "fpga-1", "fpga-1-region-0", "fpga-1-region-1"]
    part = found["fpga-1-region-1"]
    assert (part.kind, part.type, part.uuid) == ("fpga", "region", "FPGA-XF-9d/region/region1")
    assert part.location == Location(FIRST, "pci0000:80", 1)
    assert part.attributes["parentUUID"] == "FPGA-XF-9d"
    assert int(str(part.attributes["compatID"]), 16)
    assert backend.edits(part.name).env == (("EXAMPLE_REGION", f"{FIRST}/region1 of {FIRST}"),)
    assert backend.edits(part.name).nodes == (DeviceNode(f"/dev/example/{FIRST}-region1", "", 10, 124),)


def test_a_card_takes_all_its_regions_and_a_region_one(host: FpgaHost) -> None:
    """By shared counters (KEP-4815), so every scheduler keeps to it; a card without regions has none."""
    host.divide(FIRST, "region0", "region1")
    devices, sets = published(NodeInventory(backend_of(host.root, parts=[REGION]).devices()))
    assert sets == {"fpga-1-counter-set": {"parts": {"value": "2"}}}
    assert {name: taken(row) for name, row in devices.items()} == {
        "fpga-0": {},
        "fpga-1": {"parts": "2"},
        "fpga-1-region-0": {"parts": "1"},
        "fpga-1-region-1": {"parts": "1"},
    }
    types = {name: row["attributes"]["type"]["string"] for name, row in devices.items()}
    assert types["fpga-1"] == "fpga"
    assert types["fpga-1-region-0"] == "region"


def test_parts_of_several_sizes_share_what_their_card_has(host: FpgaHost) -> None:
    """Four eights, or two sixteens, or some of both: the card's capacity is the counter that they take from."""
    host.remove(SECOND)
    backend = backend_of(host.root, **SESSIONS)
    devices, sets = published(NodeInventory(backend.devices()))
    assert sets == {"fpga-0-counter-set": {"parts": {"value": "6"}, "sessions": {"value": "32"}}}
    assert taken(devices["fpga-0"]) == {"parts": "6", "sessions": "32"}
    assert taken(devices["fpga-0-small-3"]) == {"parts": "1", "sessions": "8"}
    assert taken(devices["fpga-0-large-1"]) == {"parts": "1", "sessions": "16"}
    assert devices["fpga-0-large-1"]["capacity"] == {"sessions": {"value": "16"}}
    assert backend.edits("fpga-0-small-3").env == (("SESSIONS", "3"),)


def test_of_an_amount_that_cannot_be_read_there_is_nothing_left(host: FpgaHost) -> None:
    """Unknown is not free: parts that take of it wait, and a device that refers to no counter would make the pool invalid."""
    host.say(FIRST, "regions", "many")
    devices, sets = published(NodeInventory(backend_of(host.root, **SESSIONS).devices()))
    assert sets["fpga-1-counter-set"] == {"parts": {"value": "6"}, "sessions": {"value": "0"}}
    assert taken(devices["fpga-1"]) == {"parts": "6"}
    assert taken(devices["fpga-1-small-0"]) == {"parts": "1", "sessions": "8"}


def test_counters_are_named_as_the_api_takes_them(host: FpgaHost) -> None:
    """A capacity is a C identifier, a counter a DNS label."""
    parts = [{"type": "lane", "count": 2, "takes": {"dmaBandwidth": "6G", "_IO_lanes2": 1}}]
    capacity = {"dmaBandwidth": {"value": "12G"}, "_IO_lanes2": {"value": 2}}
    _, sets = published(NodeInventory(backend_of(host.root, capacity=capacity, parts=parts).devices()))
    assert [*sets["fpga-0-counter-set"]] == ["parts", "dma-bandwidth", "io-lanes2"]


def test_a_part_that_is_gone_is_lost_and_the_others_keep_their_names(host: FpgaHost) -> None:
    """Names are by UUID, as those of cards; what comes later gets a free one."""
    host.divide(FIRST, "region0", "region1")
    names = UnkeptNames()
    kind = DeviceKind.from_json(described() | {"parts": [REGION]})
    backend = GenericBackend(kind, host.root, names)
    backend.devices()
    host.join(FIRST, "region0")
    assert backend.health() == {"fpga-1-region-0": Health.LOST}
    with pytest.raises(Lost, match="fpga-1-region-0: the node has no region FPGA-XF-9d/region/region0 now"):
        backend.edits("fpga-1-region-0")
    assert set(by_name(GenericBackend(kind, host.root, names))) == {"fpga-0", "fpga-1", "fpga-1-region-1"}
    host.divide(FIRST, "region7")
    assert backend.incomplete()
    assert by_name(backend)["fpga-1-region-2"].uuid == "FPGA-XF-9d/region/region7"


def test_a_part_is_sick_with_its_card_and_by_its_own_file(host: FpgaHost) -> None:
    """A sick part leaves the card and the other parts well; a lost card takes all its parts along."""
    host.divide(FIRST, "region0", "region1")
    backend = backend_of(host.root, parts=[REGION])
    backend.devices()
    assert backend.health() == {}
    host.say_of(FIRST, "region0", "state", "broken")
    assert backend.health() == {"fpga-1-region-0": Health.SICK}
    host.say_of(FIRST, "region0", "state", "ready")
    host.say(FIRST, "status", "hot")
    sick = {"fpga-1", "fpga-1-region-0", "fpga-1-region-1"}
    assert backend.health() == dict.fromkeys(sick, Health.SICK)
    host.remove(FIRST)
    assert backend.health() == dict.fromkeys(sick, Health.LOST)


def test_what_claims_have_lost_and_still_use_of_a_card_is_not_free(host: FpgaHost) -> None:
    """A part whose pod was deleted by force keeps its card from being given whole, and its amounts are taken."""
    cards = backend_of(host.root, **SESSIONS).devices()
    for held, left in (
        ("fpga-1-large-0", {"parts": "5", "sessions": "16"}),
        ("fpga-1", {"parts": "0", "sessions": "0"}),
        ("fpga-0-large-0", {"parts": "6", "sessions": "32"}),
    ):
        _, sets = published(NodeInventory(cards, blocked=frozenset({held})))
        assert {name: row["value"] for name, row in sets["fpga-1-counter-set"].items()} == left, held


@pytest.mark.slow
@given(
    counts=st.lists(st.integers(1, 64), min_size=1, max_size=4),
    cards=st.integers(1, 12),
    takes=st.lists(st.booleans(), min_size=4, max_size=4),
)
@settings(max_examples=10)
def test_slices_keep_to_the_limits_of_the_api(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], cards: int, takes: list[bool]
) -> None:
    """64 devices that consume counters or 8 counter sets to a slice, names that are DNS labels, and no counter that no set has."""
    host = FpgaHost(tmp_path_factory.mktemp("host") / "root")
    for number in range(cards):
        host.add(f"0000:{number:02x}:00.0", bridge=f"{number:02x}")
    parts = [
        {"type": f"part{n}", "count": count} | ({"takes": {"regions": 1}} if takes[n] else {})
        for n, count in enumerate(counts)
    ]
    (pool,) = pools(NodeInventory(backend_of(host.root, parts=parts).devices()), {"fpga": FPGA})
    check_limits(pool)
    assert sum(len(each.rows) for each in pool.contents if each.field == "devices") == cards * (
        1 + sum(counts)
    )


async def test_a_region_is_not_prepared_while_its_card_is_nor_a_card_while_its_region_is(
    host: FpgaHost, make_node: MakeNode, namespace: str
) -> None:
    """By whom they were allocated does not matter: the claim that came first is named. Regions do not hinder each other."""
    host.divide(FIRST, "region0", "region1")
    async with make_node(cards=[H100]) as node:
        configure(node, host, described() | {"parts": [REGION]})
        async with node.agent():
            found = await eventually(lambda: node.devices(FPGA), bool)
            assert set(found) == {"fpga-0", "fpga-1", "fpga-1-region-0", "fpga-1-region-1"}
            whole = await node.claim(namespace, "whole", "fpga-1", driver=FPGA)
            one, two = [
                await node.claim(namespace, f"part-{number}", f"fpga-1-region-{number}", driver=FPGA)
                for number in (0, 1)
            ]
            assert await prepared(node, whole) == ""
            assert "fpga-1-region-0 is held by ResourceClaim" in await prepared(node, one)
            await node.unprepare(whole, driver=FPGA)
            assert await prepared(node, one) == await prepared(node, two) == ""
            assert "fpga-1 is held by ResourceClaim" in await prepared(node, whole)
            edits = [file["devices"][0]["containerEdits"] for file in node.cdi().values()]
            assert {each["deviceNodes"][0]["path"] for each in edits} == {
                f"/dev/example/{FIRST}-region0",
                f"/dev/example/{FIRST}-region1",
            }


async def test_a_region_that_is_gone_is_not_prepared_as_its_card(
    host: FpgaHost, make_node: MakeNode, namespace: str
) -> None:
    """Its name begins with the card's. Until the claim that had it is unprepared, its card is nobody else's."""
    host.divide(FIRST, "region0")
    async with make_node(cards=[H100]) as node:
        configure(node, host, described() | {"parts": [REGION]})
        async with node.agent():
            await served(node)
            claim = await node.claim(namespace, "mine", "fpga-1-region-0", driver=FPGA)
            assert await prepared(node, claim) == ""
        host.join(FIRST, "region0")
        async with node.agent():
            await served(node)
            assert "fpga-1-region-0 does not exist on this node" in await prepared(node, claim)
            whole = await node.claim(namespace, "whole", "fpga-1", driver=FPGA)
            assert "which has fpga-1-region-0 prepared" in await prepared(node, whole)
            assert await node.unprepared(claim, driver=FPGA) == ""
            assert await prepared(node, whole) == ""


async def test_the_names_of_regions_are_kept_when_the_journal_is_lost(
    make_node: MakeNode, host: FpgaHost
) -> None:
    """By the slices: the region that is first now is not the one that was first."""
    host.divide(FIRST, "region3", "region4")
    async with make_node(cards=[H100]) as node:
        configure(node, host, described() | {"parts": [REGION]})
        async with node.agent():
            before = await eventually(lambda: node.devices(FPGA), bool)
        (node.folder / "state/journal.db").unlink()
        host.divide(FIRST, "region0")
        async with node.agent():
            after = await eventually(lambda: node.devices(FPGA), lambda found: len(found) == 5)
        for name, device in before.items():
            assert after[name]["attributes"]["uuid"] == device["attributes"]["uuid"]
        assert after["fpga-1-region-2"]["attributes"]["uuid"] == {"string": "FPGA-XF-9d/region/region0"}


def test_a_long_uuid_of_a_part_fits_into_an_attribute(host: FpgaHost) -> None:
    """64 bytes, whatever the kernel calls the part."""
    host.say(FIRST, "serial_number", "x" * 47)
    host.divide(FIRST, "r" * 40, "r" * 41)
    cards = by_name(backend_of(host.root, parts=[REGION]))
    uuids: set[Any] = {card.uuid for card in cards.values() if card.part_of}
    assert len(uuids) == 2
    assert all(len(uuid) <= 64 and uuid.startswith("FPGA-") for uuid in uuids)


def test_a_card_without_folders_of_parts_is_a_card_alone(host: FpgaHost, tmp_path: Path) -> None:
    """As it was before its kind had parts: no counters, and slices that are shared with other cards."""
    assert not (tmp_path / "root/sys/fpga_region").exists()
    devices, sets = published(NodeInventory(backend_of(host.root, parts=[REGION]).devices()))
    assert sets == {}
    assert devices == published(NodeInventory(backend_of(host.root).devices()))[0]
