"""What the Ascend backend finds out about chips: place, totals, templates, links, and why a chip is not cut."""

import pytest

from apportion.agent.backends import backends
from apportion.agent.devices import models
from apportion.agent.devices.ascend import templates
from apportion.agent.devices.ascend.backend import AscendBackend
from apportion.agent.devices.ascend.driverversion import version_of
from apportion.agent.devices.hardware import Hardware
from apportion.agent.devices.values import MIB, UNCUT, CardKind, PartitionPlace, Placement
from apportion.agent.settings import AgentOptions
from apportion.agent.slices.nodeinventory import NodeInventory
from apportion.agent.slices.pool import pools
from apportion.errors import HardwareError, Lost, Unsupported
from testbed.fakes.dcmi import npu_smi
from testbed.fakes.dcmi.layout import CONTAINER
from testbed.fakes.dcmi.models import models as faked
from tests.agent.ascend.nodes import WANTED, Node, Nodes
from tests.agent.places import DRIVERS

NPUS = [name for name in models.names() if models.model(name).kind is CardKind.NPU]


@pytest.mark.parametrize("model", NPUS)
def test_a_chip_is_what_the_table_of_its_model_says(node_with: Nodes, model: str) -> None:
    """By name, board id and memory: templates of the right table, totals of the driver."""
    (card,) = node_with([model]).backend.devices()
    known = models.model(model)
    assert card.totals == known.totals
    assert {profile.name: profile.amounts for profile in card.profiles} == {
        profile.name: profile.amounts for profile in known.profiles
    }
    assert card.instance_ids == tuple(range(100, 100 + known.ids))
    assert UNCUT not in card.attributes


def test_chips_are_named_by_physical_id_and_placed_by_their_bus(node_with: Nodes) -> None:
    """Cards are numbered by slot, so a card's number is no chip's."""
    node = node_with(["910B4"] * 4)
    cards = node.backend.devices()
    assert [card.name for card in cards] == ["npu-0", "npu-1", "npu-2", "npu-3"]
    assert [card.attributes["cardId"] for card in cards] == [1, 2, 3, 4]
    assert [(card.location.pcie_root, card.location.numa_node) for card in cards] == [
        ("pci0000:80", 0), ("pci0000:80", 0), ("pci0000:90", 1), ("pci0000:90", 1),
    ]  # fmt: skip
    assert len({card.uuid for card in cards}) == 4
    assert all(len(card.uuid) == len("NPU-") + 40 for card in cards)
    assert [card.instance_ids[0] for card in cards] == [100, 116, 132, 148]
    assert [node.backend.devices()] == [cards]


def test_totals_stay_the_same_when_the_chip_is_cut(node: Node) -> None:
    """A whole 910B4 shows 6 AI CPUs and a cut one 7: what vNPUs can take is published from the start."""
    before, _ = node.backend.devices()
    node.backend.create(WANTED)
    after, _ = AscendBackend(node.root).devices()
    assert before.totals == after.totals
    assert before.totals["aicpu"] == 7
    assert before.totals["memory"] == 28672 * MIB


@pytest.mark.parametrize(
    ("models", "rings"),
    [
        pytest.param(["910B4"] * 8, [8], id="a mesh of eight"),
        pytest.param(["910B4"] * 16, [8, 8], id="Box16: two rings of eight"),
        pytest.param(["910A"] * 8, [4, 4], id="910A: two rings of four, which its library does not tell"),
        pytest.param(["310P-48G"] * 4, [], id="310P: none that the library tells"),
        pytest.param(["A3"] * 6, [6], id="A3: dies and modules through switches"),
    ],
)
def test_chips_with_hccs_between_them_share_a_group(
    node_with: Nodes, models: list[str], rings: list[int]
) -> None:
    """Named by the first chip's UUID, so that no two nodes have the same."""
    cards = node_with(models).backend.devices()
    groups = [card.attributes.get("hccsGroup") for card in cards]
    expected = [start for start, size in zip((0, *rings), rings, strict=False) for _ in range(size)]
    assert groups == ([cards[start].uuid for start in expected] if rings else [None] * len(cards))


def test_an_a3_says_where_it_is_in_its_super_pod_and_is_whole(node_with: Nodes) -> None:
    """Two chips to a card; DCMI makes no vNPUs on it."""
    cards = node_with(["A3"] * 4).backend.devices()
    assert [(card.attributes["moduleId"], card.attributes["chipId"]) for card in cards] == [
        (1, 0), (1, 1), (2, 0), (2, 1),
    ]  # fmt: skip
    assert all((card.attributes["superPodId"], card.attributes["serverIndex"]) == (7, 3) for card in cards)
    # By which ids HCCL's rank table of a super pod knows them.
    assert [card.attributes["superDeviceId"] for card in cards] == [0, 1, 2, 3]
    assert all(card.attributes[UNCUT] == "NotSupported" for card in cards)
    assert cards[0].capacity == {"aicore": 24, "memory": 65536 * MIB}


def test_a_chip_says_the_address_of_its_nic_where_the_host_has_it(node_with: Nodes) -> None:
    """It is found at the next look, too: hccn_tool may write the file later. No other chip has one."""
    node = node_with(["910B4"] * 2)
    assert all("deviceIP" not in card.attributes for card in node.backend.devices())
    (node.root / "etc").mkdir(exist_ok=True)
    (node.root / "etc/hccn.conf").write_text("address_1=192.168.101.7\nnetmask_1=255.255.255.0\n")
    first, second = node.backend.devices()
    assert "deviceIP" not in first.attributes
    assert second.attributes["deviceIP"] == "192.168.101.7"


def test_an_unknown_chip_is_published_whole_and_says_why(node_with: Nodes) -> None:
    """And with it what it has; somebody's vNPU on it is seen, and keeps it from being used whole."""
    node = node_with(["unknown", "910B4"])
    card, other = node.backend.devices()
    assert (card.profiles, card.totals, card.instance_ids) == ((), {}, ())
    assert card.attributes[UNCUT] == "UnknownChip"
    assert card.capacity["aicore"] == 24
    assert other.profiles
    (pool,) = pools(NodeInventory((card,)), DRIVERS)
    (row,) = pool.contents[0].rows
    assert row["attributes"][UNCUT] == {"string": "UnknownChip"}
    with pytest.raises(Unsupported, match="offers no template"):
        node.backend.create(PartitionPlace("npu-0", "vir12_4c_32g", Placement(100, 1)))
    node.fake.create_by_hand(0, "vir12_4c_32g", 100)
    (live,) = node.backend.partitions_of("npu-0")
    assert (live.profile, live.placement) == ("vir12_4c_32g", Placement(100, 1))
    with pytest.raises(HardwareError, match="npu-0: it is cut; npu-0 has vir12_4c_32g as 100"):
        node.backend.make_whole("npu-0")


def test_with_npu_smi_a_chip_never_seen_before_is_cut(node_with: Nodes) -> None:
    """It alone prints templates; the memory that it rounds up is not promised."""
    node = node_with(["unknown"])
    npu_smi.install(node.fake, node.root)
    (card,) = node.backend.devices()
    (profile,) = card.profiles
    assert (profile.name, profile.most) == ("vir12_4c_32g", 2)
    assert profile.amounts == {
        "aicore": 12, "aicpu": 4, "memory": 32768 * MIB, "vpc": 5, "vdec": 1, "venc": 0, "jpegd": 14, "jpege": 2,
    }  # fmt: skip
    assert UNCUT not in card.attributes
    for number in (100, 101):
        node.backend.create(PartitionPlace("npu-0", profile.name, Placement(number, 1)))


@pytest.mark.parametrize("model", NPUS)
def test_npu_smi_and_the_table_agree(node_with: Nodes, model: str) -> None:
    """Where both know a template the table's memory counts, which is what the driver really gives."""
    node = node_with([model])
    alone = node.backend.devices()
    program = npu_smi.install(node.fake, node.root)
    assert set(templates.parse(npu_smi.template_info(node.fake.read().chip[0]))) == {
        profile.name for profile in alone[0].profiles
    }
    assert templates.ask(1, node.root)
    assert AscendBackend(node.root).devices() == alone
    # A program that hangs up or talks nonsense is no reason to stop.
    program.write_text("#!/bin/sh\necho '| garbage |'\nexit 1\n", encoding="ascii")
    assert AscendBackend(node.root).devices()[0].profiles == alone[0].profiles


def test_what_npu_smi_leaves_open_is_left_out() -> None:
    """`NA` in a row, headers and lines that are none."""
    text = """
    |Name                AICORE    Memory    AICPU     VPC            VENC           JPEGD     |
    |                               GB                 PNGD           VDEC           JPEGE     |
    |==========================================================================================|
    |vir05_1c_16g        5         16        1         2              NA             6         |
    |                                                  NA             0              1         |
    +------------------------------------------------------------------------------------------+
    |vir99               NA        16        1         2              0              6         |
    |                                                  0              0              1         |
    """
    assert templates.parse(text) == {
        "vir05_1c_16g": {
            "aicore": 5,
            "memory": 16384 * MIB,
            "aicpu": 1,
            "vpc": 2,
            "jpegd": 6,
            "vdec": 0,
            "jpege": 1,
        }
    }


def test_a_node_for_virtual_machines_cuts_nothing_and_says_so(node: Node) -> None:
    """Found out at the start, and again when somebody switched it later."""
    node.backend.devices()
    node.fake.set_mode(virtual_machines=True)
    with pytest.raises(Unsupported, match="npu-smi set -t vnpu-mode -d 0 changes it"):
        node.backend.create(WANTED)
    card, _ = node.backend.devices()
    assert (card.attributes[UNCUT], card.profiles) == ("VirtualMachineMode", ())


def test_without_the_right_to_cut_chips_are_whole(node: Node) -> None:
    """An agent that is not privileged still publishes."""
    node.fake.call_from(CONTAINER)
    card, _ = node.backend.devices()
    assert (card.attributes[UNCUT], card.profiles) == ("NotPermitted", ())


def test_a_910a_in_smp_mode_refuses_to_be_cut(node_with: Nodes) -> None:
    """The refusal is the driver's and for good."""
    node = node_with(["910A"])
    node.backend.devices()
    node.fake.set_mode(smp=True)
    with pytest.raises(Unsupported, match="not supported"):
        node.backend.create(PartitionPlace("npu-0", "vir02", Placement(100, 1)))


async def test_a_chip_that_does_not_answer_is_left_out(node: Node) -> None:
    """The others are there; what is on it is not known, which is not nothing."""
    node.fake.lose(0)
    assert [card.name for card in node.backend.devices()] == ["npu-1"]
    with pytest.raises(Lost, match="nobody knows what is on it"):
        node.backend.partitions_of("npu-0")
    hardware = Hardware([node.backend])
    await hardware.discover()
    with pytest.raises(Lost, match="nobody knows what is on it"):
        await hardware.partitions_of("npu-0")
    assert hardware.incomplete
    node.fake.heal()
    assert set(await hardware.discover()) == {"npu-0", "npu-1"}
    assert not hardware.incomplete
    node.backend.devices()
    assert node.backend.partitions_of("npu-7") == ()


def test_the_agent_takes_the_backend_by_name(node: Node) -> None:
    """`--backend ascend` is this one, with the host's root from the options."""
    (backend,) = backends(AgentOptions(node="n", backend="ascend", host_root=node.root))
    assert isinstance(backend, AscendBackend)
    assert [card.location.pcie_root for card in backend.devices()] == ["pci0000:80"] * 2


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("24.1.rc3", "24.1.0-rc3"),
        ("23.0.7", "23.0.7"),
        ("25.0.rc1.1", "25.0.0-rc1.1"),
        ("24.1.0.3", "24.1.0"),
        ("7.0.0.5.242", "7.0.0"),
        ("21.0.3.B050", "21.0.3-b050"),
        ("experimental", None),
    ],
)
def test_driver_versions_become_semantic_ones(text: str, version: str | None) -> None:
    """Release candidates come before their release."""
    found = version_of(text)
    assert (str(found) if found is not None else None) == version


def test_the_fake_has_chips_that_the_table_does_not_know() -> None:
    """Else the tests above prove nothing."""
    assert set(faked()) - set(NPUS) == {"310B", "950", "A3", "unknown"}
