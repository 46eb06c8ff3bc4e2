"""Gaps in the crash safety of a comparable DRA driver that concern claims: each test shows that ours has it not."""

import asyncio
from pathlib import Path

import pytest

from apportion.agent.devices.hardware import Hardware
from apportion.agent.devices.simulated.backend import SimulatedBackend
from apportion.agent.devices.values import PartitionPlace, Placement
from apportion.agent.journal import Journal
from apportion.agent.lifecycle.begun import BegunCuts
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.lifecycle.desiredpartitions import DesiredPartitions
from apportion.agent.lifecycle.worker import CardWorker
from apportion.agent.rows import PartitionRow, Step
from apportion.cluster.client import connect
from testbed.eventually import eventually
from tests.agent.killablenode import KillableNode, place

PLACE = place("3g.40gb", 4)


async def test_a_prepared_claim_that_is_gone_from_the_api_is_noticed_at_start(killable: KillableNode) -> None:
    """Deleted by force, or lost with an old copy of etcd: held and told until kubelet comes, never given away.

    Peer: prepared claims are never compared with the API server.
    """
    node = killable.node
    node.start()
    old = await killable.running("old", PLACE)
    uid = old["metadata"]["uid"]
    (live,) = killable.cuts()
    await node.kill()
    await node.delete_claim(old)
    node.start()
    await killable.tainted(PLACE.device, "held")
    new = await node.create_claim("new", PLACE.device)
    await node.set_holder(PLACE, new)
    assert f"is held by ResourceClaim default/{node.name}-old (uid {uid})" in await node.prepare_error(new)
    assert killable.cuts() == [live]
    await node.unprepare(old)
    await killable.tainted(PLACE.device)
    assert (await node.prepare(new, PLACE.device, "gpu-0")).uuid == live.uuid


async def test_a_preparation_that_nobody_finishes_is_undone(killable: KillableNode) -> None:
    """The agent died before it answered, and kubelet never comes back: no container can have the device."""
    node = killable.node
    doomed = node.start(kill_at="claim.injected")
    claim = await node.create_claim("never", PLACE.device)
    await node.create_partition(PLACE, claim)
    preparing = asyncio.create_task(node.prepare(claim, PLACE.device, "gpu-0"))
    await doomed.exited
    preparing.cancel()
    assert killable.ask_journal("SELECT step FROM claims") != []
    await node.delete_claim(claim)
    node.start()
    await killable.journal_says("SELECT step FROM claims")
    assert list(node.cdi.glob("*")) == []
    await killable.tainted(PLACE.device)


async def test_what_another_agent_is_cutting_is_left_alone(killable: KillableNode) -> None:
    """In a rolling update the new agent starts while the old one is between two driver calls.

    Peer: the start-up clean-up reads its checkpoint without the lock.
    """
    node = killable.node
    killable.fake.hang("nvmlGpuInstanceCreateComputeInstance")
    old = node.start()
    await node.wait_serving()
    await node.create_partition(PLACE, None)

    async def half() -> bool:
        return [cut.uuid for cut in killable.cuts()] == [""]

    await eventually(half)
    new = node.start_second(instance="new")

    async def sessions() -> int:
        return killable.fake.calls()["nvmlInitWithFlags"]

    await eventually(sessions, lambda count: count == 2)
    # Time enough for a clean-up that does not wait for the card.
    await asyncio.sleep(1.0)
    killable.fake.drop_rules()
    await killable.phase(PLACE, "Idle")
    calls = killable.fake.calls()
    assert calls["nvmlDeviceCreateGpuInstanceWithPlacement"] == 1
    assert "nvmlGpuInstanceDestroy" not in calls
    assert old.alive
    assert new.alive
    await new.kill()


async def test_a_partition_that_our_watch_has_not_heard_of_is_not_released(
    killable: KillableNode, tmp_path: Path
) -> None:
    """The other agent heard of it first and wrote its Intent: the API is asked before anything is taken away."""
    node = killable.node
    node.start()
    await node.create_partition(PLACE, None)
    uid = (await killable.phase(PLACE, "Idle"))["metadata"]["uid"]
    await node.kill()
    simulation = tmp_path / "node.yaml"
    simulation.write_text("cards: [{model: H100-80GB}]")
    hardware = Hardware([SimulatedBackend(simulation, node.name)])
    await hardware.discover()
    journal = Journal(tmp_path / "journal.db", "boot")
    name = f"{node.name}-{PLACE.device}"
    place = PartitionPlace("gpu-0", "3g.40gb", Placement(4, 4))
    journal.put_partition(PartitionRow(uid, name, PLACE.device, place, Step.INTENT))
    async with await connect(node.folder / "kubeconfig") as client:
        context = AgentContext(
            client, hardware, journal, DesiredPartitions(), tmp_path / "locks", BegunCuts(tmp_path / "cuts")
        )
        await CardWorker(context, "gpu-0").round()
        assert journal.partition(uid) is not None
        await node.lose_partition(PLACE)
        await CardWorker(context, "gpu-0").round()
        assert journal.partition(uid) is None
    journal.close()


@pytest.mark.parametrize("rebooted", [False, True])
async def test_a_journal_without_boot_id_is_not_taken_for_this_boot(
    killable: KillableNode, *, rebooted: bool
) -> None:
    """Claims count as prepared if their files and partitions prove it, not because the file says so.

    Peer: an old checkpoint without a boot id gets the current one.
    """
    node = killable.node
    node.start()
    claim = await killable.running("c", PLACE)
    (before,) = killable.cuts()
    await node.kill()
    killable.ask_journal("DELETE FROM boot")
    if rebooted:
        node.reboot()
    node.start()
    await node.wait_serving()
    await killable.journal_says("SELECT step FROM claims", *([] if rebooted else [("Prepared",)]))
    (after,) = await killable.becomes(1)
    assert (after.uuid == before.uuid) is not rebooted
    assert (await node.prepare(claim, PLACE.device, "gpu-0")).uuid == after.uuid


async def test_another_claim_of_the_same_name_is_another_claim(killable: KillableNode) -> None:
    """The journal keeps namespace, name and UID of what is prepared, so they can be compared later.

    Peer: the checkpoint drops name and namespace of prepared claims.
    """
    node = killable.node
    node.start()
    old = await killable.running("same", PLACE)
    meta = old["metadata"]
    row = (meta["uid"], meta["namespace"], meta["name"])
    await killable.journal_says("SELECT uid, namespace, name FROM claims WHERE step='Prepared'", row)
    await node.kill()
    await node.delete_claim(old)
    new = await node.create_claim("same", PLACE.device)
    await node.set_holder(PLACE, new)
    node.start()
    await killable.tainted(PLACE.device, "held")
    assert f"uid {meta['uid']}" in await node.prepare_error(new)
