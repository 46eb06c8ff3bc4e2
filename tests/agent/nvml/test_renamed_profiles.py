"""A driver that gives profiles other names: what exists under the former ones is found by the profiles' ids."""

from pathlib import Path

import pytest

from apportion.agent.devices.names import UnkeptNames
from apportion.agent.devices.nvml.backend import NvmlBackend
from apportion.agent.devices.values import PartitionPlace, Placement
from apportion.agent.journal import Journal
from apportion.agent.rows import PartitionRow, Step
from testbed.eventually import eventually
from tests.agent.killedagent import journal_steps, killed_agent
from tests.agent.nvml.nodes import MakeFake, Nodes
from tests.agent.simulatednode import holder

OLD = "gpu-0-mig-3g40gb-9-4"


@pytest.mark.parametrize(
    "names",
    [
        pytest.param({9: "3g.39gb"}, id="a new name"),
        pytest.param({9: "3g.39gb", 5: "3g.40gb"}, id="its name is another profile's now"),
    ],
)
async def test_a_partition_that_exists_stays_itself_under_a_driver_with_other_names(
    faked: MakeFake, namespace: str, names: dict[int, str]
) -> None:
    """It keeps its device, is prepared, and is removed; nothing else is cut."""
    async with faked() as (node, fake):
        with fake.changing() as state:
            state.versioned_anytime = 1
        async with killed_agent(node, "never") as agent:
            claim = await node.claim(namespace, "runs", OLD)
            uid = claim["metadata"]["uid"]
            await node.partition(OLD, "3g.40gb", holder=holder(claim))
            answer = await agent.insist(lambda: eventually(lambda: node.prepare(claim), bool))
            assert answer[uid].error == ""
        before = fake.instances()
        fake.rename(names)
        async with killed_agent(node, "never") as agent:
            answer = await agent.insist(lambda: eventually(lambda: node.prepare(claim), bool))
            assert answer[uid].error == ""
            published = await eventually(node.devices, bool)
            assert OLD in published
            assert not [name for name in published if name.startswith("gpu-0-mig-3g") and "-9-" not in name]
            assert [one.compute[0].uuid for one in fake.instances()] == [
                one.compute[0].uuid for one in before
            ]
            assert await node.events("ForeignPartition") == []
            assert await node.unprepared(claim) == ""
            await node.remove(OLD)
            await eventually(lambda: node.see(OLD), lambda item: item == {})
            assert fake.instances() == ()
            assert journal_steps(node) == ([], [])


@pytest.mark.parametrize("exists", [True, False])
def test_a_profile_has_the_name_of_then_as_long_as_a_partition_of_it_exists(
    node_with: Nodes, *, exists: bool
) -> None:
    """Afterwards the driver's; another profile that the driver calls so is not offered meanwhile, so that none is taken for the other."""
    node = node_with(["H100-80GB"], mig=True)
    node.fake.rename({9: "3g.39gb", 5: "3g.40gb"})
    kept = {9: "3g.40gb"} if exists else {}
    backend = NvmlBackend(node.root, names=UnkeptNames(profiles=lambda _: kept))
    (card,) = backend.devices()
    found = {profile.number: profile.name for profile in card.profiles if profile.number in {5, 9}}
    assert found == ({9: "3g.40gb"} if exists else {9: "3g.39gb", 5: "3g.40gb"})
    backend.close()


def test_the_journal_knows_the_names_of_what_exists_on_a_card(tmp_path: Path) -> None:
    """By the profile's id, which the device's name has; of two names the older one; other cards have their own."""
    journal = Journal(tmp_path / "journal.db", "boot")
    for number, (device, profile, card) in enumerate(
        (
            ("gpu-0-mig-3g40gb-9-4", "3g.40gb", "GPU-a"),
            ("gpu-0-mig-3g39gb-9-0", "3g.39gb", "GPU-a"),
            ("gpu-1-mig-1g10gb-me-20-1-static", "1g.10gb+me", "GPU-b"),
        )
    ):
        place = PartitionPlace(device[:5], profile, Placement(0, 1))
        journal.put_partition(PartitionRow(f"u{number}", "n", device, place, Step.READY, card_uuid=card))
    assert journal.profiles("GPU-a") == {9: "3g.40gb"}
    assert journal.profiles("GPU-b") == {20: "1g.10gb+me"}
    assert journal.profiles("GPU-c") == {}
    journal.close()


async def test_a_partition_that_was_not_cut_yet_is_cut_by_the_id_of_its_profile(
    faked: MakeFake, namespace: str
) -> None:
    """Its object names a device of the former driver; another profile that has the name today is not cut."""
    async with faked() as (node, fake):
        with fake.changing() as state:
            state.versioned_anytime = 1
        fake.rename({9: "3g.39gb", 5: "3g.40gb"})
        async with killed_agent(node, "never") as agent:
            claim = await node.claim(namespace, "late", OLD)
            await node.partition(OLD, "3g.40gb", holder=holder(claim))
            answer = await agent.insist(lambda: eventually(lambda: node.prepare(claim), bool))
            assert answer[claim["metadata"]["uid"]].error == ""
            (made,) = fake.instances()
            assert (made.profile_id, made.start) == (9, 4)
            await node.phase(OLD, "Ready")
            assert await node.unprepared(claim) == ""
            await node.remove(OLD)
            await eventually(lambda: node.see(OLD), lambda item: item == {})
            assert fake.instances() == ()
