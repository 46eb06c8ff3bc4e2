"""Gaps in the crash safety of a comparable DRA driver that concern the hardware: each test shows that ours has it not."""

import pytest

from testbed.eventually import eventually
from tests.agent.killablenode import SLICES, KillableNode, place

PLACE = place("3g.40gb", 4)
CREATE_COMPUTE = "nvmlGpuInstanceCreateComputeInstance"


@pytest.mark.parametrize("wanted", [True, False])
async def test_a_gpu_instance_without_compute_instance_is_found(
    killable: KillableNode, *, wanted: bool
) -> None:
    """No MIG device handle leads to it; it is finished if it is still wanted, else removed.

    Peer: instances are listed by MIG device handle, which such an instance has not.
    """
    node = killable.node
    killable.fake.kill(CREATE_COMPUTE, after=False)
    doomed = node.start()
    await node.create_partition(PLACE, None)
    await doomed.exited
    assert [cut.uuid for cut in killable.cuts()] == [""]
    if not wanted:
        await node.delete_partition(PLACE)
    node.start()
    if wanted:
        ready = await killable.phase(PLACE, "Idle")
        assert [cut.uuid for cut in killable.cuts()] == [ready["status"]["uuid"]]
    else:
        await node.wait_removed(PLACE)
        assert killable.cuts() == []


async def test_a_strangers_half_made_one_is_counted_and_left(killable: KillableNode) -> None:
    """Nobody's journal speaks of it, so it is not ours to remove; its room is not offered."""
    node = killable.node
    killable.fake.set_mode(0, on=True)
    killable.node.hardware.create_foreign(PLACE)
    with killable.fake.changing() as state:
        state.gpu[0].instance[0].computes[0].used = 0
    node.start()
    await node.wait_published()
    assert await killable.counter("gpu-0", "memory-slice-4") == "0"
    assert await killable.counter("gpu-0", "memory-slice-0") == "1"
    assert [cut.uuid for cut in killable.cuts()] == [""]


async def test_mig_mode_stays_on_while_somebody_else_is_on_the_gpu(killable: KillableNode) -> None:
    """It was off when the agent started; the agent switched it on, and then a person came.

    Peer: whether MIG mode is on is remembered from discovery.
    """
    node = killable.node
    node.start()
    await node.create_partition(PLACE, None)
    await killable.phase(PLACE, "Idle")
    node.hardware.create_foreign(place("2g.20gb", 0))
    await node.delete_partition(PLACE)
    await node.wait_removed(PLACE)
    assert [cut.profile for cut in killable.cuts()] == ["2g.20gb"]
    assert killable.fake.mode(0) == (True, True)
    assert killable.fake.calls()["nvmlDeviceSetMigMode"] == 1


async def test_an_instance_that_got_our_ids_later_is_not_destroyed(killable: KillableNode) -> None:
    """Ids and places are used again; a UUID is not.

    Peer: UUIDs are not compared before a removal.
    """
    node = killable.node
    node.start()
    await node.create_partition(PLACE, None)
    await killable.phase(PLACE, "Idle")
    await node.kill()
    with killable.fake.changing() as state:
        state.gpu[0].instance[0].computes[0].uuid = b"MIG-of-somebody-else"
    await node.delete_partition(PLACE)
    node.start()

    async def left() -> list[str]:
        return [item["metadata"]["name"] for item in await node.partitions()]

    await eventually(left, lambda names: names == [])
    assert [cut.uuid for cut in killable.cuts()] == ["MIG-of-somebody-else"]


async def test_what_is_about_to_be_made_is_on_record_before_the_driver_is_called(
    killable: KillableNode,
) -> None:
    """Killed between GPU instance and compute instance, the journal names the place of both.

    Peer: no checkpoint between GPU instance and compute instance.
    """
    node = killable.node
    doomed = node.start(kill_at="hardware.half_made")
    await node.create_partition(PLACE, None)
    await doomed.exited
    query = "SELECT step, card, profile, start, size FROM partitions"
    assert killable.ask_journal(query) == [("Intent", "gpu-0", "3g.40gb", 4, 4)]
    node.start()
    ready = await killable.phase(PLACE, "Idle")
    (live,) = killable.cuts()
    assert live.uuid == ready["status"]["uuid"]
    row = ("Ready", live.uuid, '{"gpuInstance": "1", "computeInstance": "0"}')
    await killable.journal_says("SELECT step, uuid, instance FROM partitions", row)


async def test_a_sick_gpu_stays_tainted_over_restarts_wipes_and_lost_connections(
    killable: KillableNode,
) -> None:
    """The slices come back whole, counters included; the taint goes when the GPU is well.

    Peer: taints of health are not kept, and a failed publish is not tried again.
    """
    node = killable.node
    node.start()
    await node.wait_published()
    killable.fake.ecc(0, 3)
    await killable.tainted("gpu-0", "unhealthy")
    await killable.tainted(PLACE.device, "unhealthy")
    await node.kill()
    await node.api.delete_all(SLICES, fieldSelector=f"spec.nodeName={node.name}")
    node.relay.cut()
    node.start()

    async def complains() -> bool:
        return "unreachable" in node.log_tail()

    await eventually(complains)
    node.relay.restore()
    await killable.tainted("gpu-0", "unhealthy")
    await killable.tainted(PLACE.device, "unhealthy")
    await killable.tainted("gpu-1", "parts-only")
    assert await killable.counter("gpu-0", "memory-slice-4") == "1"
    killable.fake.reset(0)
    await killable.tainted("gpu-0")
