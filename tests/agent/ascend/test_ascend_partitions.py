"""Making, finding and removing vNPUs through the Ascend backend."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from apportion.agent.devices import models
from apportion.agent.devices.ascend.session import Session
from apportion.agent.devices.hardware import Hardware
from apportion.agent.devices.values import CardKind, PartitionPlace, Placement
from apportion.errors import Busy, HardwareError, Lost, NoRoom, Unsupported
from tests.agent.ascend.nodes import WANTED, Node, Nodes

NPUS = [name for name in models.names() if models.model(name).kind is CardKind.NPU]


def process(node: Node, verb: str, place: PartitionPlace, *, code: int = 0) -> list[str]:
    """Use the backend in a process of its own; returns the ids that it saw."""
    script = Path(__file__).with_name("creator.py")
    done = subprocess.run(
        [sys.executable, script, node.root, verb, place.card, place.profile, str(place.placement.start)],
        env=os.environ | node.fake.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == code, done.stderr
    return [line.removeprefix("vnpu ") for line in done.stdout.splitlines() if line.startswith("vnpu ")]


@pytest.mark.parametrize("model", NPUS)
def test_every_template_of_every_model_fits_as_often_as_it_says(node_with: Nodes, model: str) -> None:
    """As many copies as the profile promises, then no room; all listed alike, all gone without a trace."""
    node = node_with([model])
    (card,) = node.backend.devices()
    assert card.profiles
    for profile in card.profiles:
        ids = iter(card.instance_ids)
        places = [PartitionPlace("npu-0", profile.name, Placement(next(ids), 1)) for _ in range(profile.most)]
        made = tuple(node.backend.create(place) for place in places)
        assert [(row.id, row.template) for row in node.fake.vnpus()] == [
            (place.placement.start, place.profile) for place in places
        ]
        number = next(ids, None)
        if number is not None:
            with pytest.raises(NoRoom):
                node.backend.create(PartitionPlace("npu-0", profile.name, Placement(number, 1)))
        assert node.backend.partitions() == made
        for live in made:
            node.backend.destroy(live)
        assert node.fake.vnpus() == ()


def test_a_vnpu_whose_template_is_not_named_is_removed_all_the_same(node: Node) -> None:
    """It would be taken for gone by who removes it, and its cores be lost."""
    live = node.backend.create(WANTED)
    with node.fake.changing() as state:
        for template in state.chip[0].template:
            template.name = b"\xff" * 16
    (seen,) = node.backend.partitions()
    assert seen.profile == ""
    node.backend.destroy(live)
    assert node.backend.partitions() == ()


@pytest.mark.slow
def test_two_processes_see_the_same(node: Node) -> None:
    """What one makes, the other lists and removes."""
    assert process(node, "create", WANTED) == ["103"]
    (live,) = node.backend.partitions()
    assert (live.place, live.complete, live.in_use) == (WANTED, True, False)
    node.backend.destroy(live)
    assert node.fake.vnpus() == ()


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_killed_creation_is_made_or_not_made(node: Node, *, after: bool) -> None:
    """Nothing is half made; what there is lies under the id that was asked for, and another try finds out."""
    node.fake.kill("dcmi_create_vdevice", after=after)
    process(node, "create", WANTED, code=-signal.SIGKILL)
    assert [live.place for live in node.backend.partitions()] == ([WANTED] if after else [])
    if after:
        with pytest.raises(NoRoom, match="the id is taken; npu-0 has vir05_1c_8g as 103"):
            node.backend.create(WANTED)
    else:
        assert node.backend.create(WANTED).place == WANTED


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_killed_removal_is_done_or_not_done(node: Node, *, after: bool) -> None:
    """Another try makes an end of it."""
    made = node.backend.create(WANTED)
    node.fake.kill("dcmi_set_destroy_vdevice", after=after)
    process(node, "destroy", WANTED, code=-signal.SIGKILL)
    assert len(node.fake.vnpus()) == (0 if after else 1)
    node.backend.destroy(made)
    assert node.fake.vnpus() == ()


def test_a_full_chip_says_what_it_lacks_and_what_it_has(node: Node) -> None:
    """The library only says that something went wrong."""
    node.backend.create(PartitionPlace("npu-0", "vir10_4c_16g_m", Placement(100, 1)))
    with pytest.raises(NoRoom, match="not enough vpc, vdec, jpegd, jpege; npu-0 has vir10_4c_16g_m as 100"):
        node.backend.create(PartitionPlace("npu-0", "vir10_3c_16g", Placement(101, 1)))
    # Without engines there is room beside it.
    node.backend.create(PartitionPlace("npu-0", "vir10_3c_16g_nm", Placement(101, 1)))


def test_what_is_left_of_a_310p_may_lie_in_the_wrong_groups(node_with: Nodes) -> None:
    """Room may come when others go, so it is a lack of room, though the sums would do."""
    node = node_with(["310P"])
    places = [PartitionPlace("npu-0", "vir01", Placement(100 + number, 1)) for number in range(7)]
    made = [node.backend.create(place) for place in places]
    for index in (1, 3):
        node.backend.destroy(made[index])
    with pytest.raises(NoRoom, match=r"internal error \(-8005\); npu-0 has vir01 as 100, vir01 as 102"):
        node.backend.create(PartitionPlace("npu-0", "vir02_1c", Placement(107, 1)))


@pytest.mark.parametrize("code", [-8001, -8005])
def test_a_refusal_without_a_reason_may_pass(node: Node, code: int) -> None:
    """On an empty chip it is neither a lack of room nor for ever."""
    node.backend.devices()
    node.fake.fail("dcmi_create_vdevice", code)
    with pytest.raises(HardwareError) as caught:
        node.backend.create(WANTED)
    assert type(caught.value) is HardwareError
    node.backend.create(WANTED)


def test_another_vnpu_under_the_id_is_left_alone(node: Node) -> None:
    """Ids are used again; the template tells a stranger's from ours."""
    old = node.backend.create(WANTED)
    node.backend.destroy(old)
    new = node.backend.create(PartitionPlace("npu-0", "vir10_3c_16g", WANTED.placement))
    node.backend.destroy(old)
    assert node.backend.partitions() == (new,)


def test_what_is_gone_is_left_alone(node: Node) -> None:
    """Gone before, and gone between the look and the call."""
    made = node.backend.create(WANTED)
    node.backend.destroy(made)
    node.backend.destroy(made)
    assert node.fake.calls()["dcmi_set_destroy_vdevice"] == 1


def test_what_a_container_uses_is_not_destroyed(node: Node) -> None:
    """Neither when the driver says so beforehand nor when it refuses with either of its two codes for it."""
    made = node.backend.create(WANTED)
    node.fake.occupy(103)
    assert node.backend.partitions()[0].in_use
    with pytest.raises(Busy, match="a container uses it"):
        node.backend.destroy(made)
    node.fake.occupy(103, used=False)
    for code in (-8020, -8013):
        node.fake.fail("dcmi_set_destroy_vdevice", code)
        with pytest.raises(Busy, match=str(code)):
            node.backend.destroy(made)
    assert [row.id for row in node.fake.vnpus()] == [103]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (-8006, Busy),
        (-8011, Busy),
        (-8012, Busy),
        (-8017, Busy),
        (-8008, Lost),
        (-8002, Unsupported),
        (-8005, HardwareError),
    ],
)
def test_a_refusal_has_its_words_and_its_code(node: Node, code: int, kind: type[Exception]) -> None:
    """What may pass comes back as Busy; what the library cannot say more about is a plain HardwareError."""
    node.backend.devices()
    node.fake.fail("dcmi_create_vdevice", code)
    with pytest.raises(
        kind, match=rf"vir05_1c_8g at 103 of npu-0: dcmi_create_vdevice: .* \({code}\)"
    ) as caught:
        node.backend.create(WANTED)
    assert type(caught.value) is kind


def test_places_and_templates_that_a_chip_does_not_have_are_refused(node: Node) -> None:
    """Before the driver is asked."""
    for place, why in (
        (PartitionPlace("npu-0", "vir02", Placement(100, 1)), "npu-0 offers no template vir02"),
        (PartitionPlace("npu-0", "vir05_1c_8g", Placement(116, 1)), "npu-0 has no such vNPU id"),
        (PartitionPlace("npu-9", "vir05_1c_8g", Placement(100, 1)), "no NPU npu-9 on this node"),
    ):
        with pytest.raises(Unsupported, match=why):
            node.backend.create(place)
    assert "dcmi_create_vdevice" not in node.fake.calls()


def test_an_older_library_that_lacks_a_function_says_which(node: Node) -> None:
    """Instead of ending the process."""
    with pytest.raises(
        Unsupported, match="npu-0: dcmi_of_tomorrow: this driver's library has no such function"
    ):
        Session(node.root).call("dcmi_of_tomorrow", about="npu-0")


async def test_many_at_once_on_many_chips(node_with: Nodes) -> None:
    """Threads of one agent: each chip gets its four, none gets another's."""
    node = node_with(["910B4"] * 8)
    hardware = Hardware([node.backend])
    cards = await hardware.discover()
    places = [
        PartitionPlace(card.name, "vir05_1c_8g", Placement(number, 1))
        for card in cards.values()
        for number in card.instance_ids[:4]
    ]
    made = await asyncio.gather(*(hardware.create(place) for place in places))
    assert {live.place for live in made} == set(places)
    assert len(node.fake.vnpus()) == 32
    await asyncio.gather(*(hardware.destroy(live) for live in made))
    assert node.fake.vnpus() == ()
