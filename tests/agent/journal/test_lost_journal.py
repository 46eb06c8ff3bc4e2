"""A journal that is gone or broken: what is prepared stays prepared, what is ours stays ours, and nothing is left over."""

import sqlite3
from contextlib import closing

import pytest

from testbed.eventually import eventually
from tests.agent.journal.smalldisk import small_disk
from tests.agent.killablenode import KillableNode, place

PLACE = place("3g.40gb", 4)
OTHER = place("1g.10gb", 0)


def _lose(killable: KillableNode, how: str) -> None:
    for suffix in ("-wal", "-shm"):
        killable.journal.with_name(killable.journal.name + suffix).unlink(missing_ok=True)
    if how == "gone":
        killable.journal.unlink()
    else:
        killable.journal.write_bytes(b"this was a database once" * 1000)


@pytest.mark.parametrize("how", ["gone", "broken"])
async def test_prepared_claims_are_recollected(killable: KillableNode, how: str) -> None:
    """From their files, the API and the hardware: nobody else gets their devices, a partition or a whole card."""
    node = killable.node
    node.start()
    part = await killable.running("part", PLACE)
    (live,) = killable.cuts()
    await node.kill()
    _lose(killable, how)
    await node.delete_claim(part)
    await node.delete_partition(PLACE)
    node.start()
    query = "SELECT uid, name, step FROM claims"
    await killable.journal_says(query, (part["metadata"]["uid"], f"{node.name}-part", "Prepared"))
    assert killable.journal.with_suffix(".broken").exists() == (how == "broken")
    # Its claim is gone and its object is being deleted: as long as it runs, it stays.
    await killable.tainted(PLACE.device, "held")
    assert killable.cuts() == [live]
    await node.unprepare(part)
    await node.wait_removed(PLACE)
    assert killable.cuts() == []


async def test_a_whole_card_in_use_is_recollected(killable: KillableNode) -> None:
    """It has no Partition object: only its files say that a container has it."""
    node = killable.node
    node.start()
    claim = await node.create_claim("whole", "gpu-0")
    await node.prepare(claim, "gpu-0", "gpu-0")
    await node.kill()
    _lose(killable, "gone")
    await node.create_partition(OTHER, None)
    node.start()
    waiting = await killable.phase(OTHER, "Pending")
    assert "gpu-0 is prepared whole" in waiting["status"]["conditions"][0]["message"]
    assert node.hardware.whole("gpu-0")
    await node.unprepare(claim)
    await killable.phase(OTHER, "Idle")


@pytest.mark.parametrize("known", [False, True], ids=["gone", "confirmed"])
async def test_after_a_reboot_what_the_api_confirms_is_recollected(
    killable: KillableNode, *, known: bool
) -> None:
    """Files that a reboot left (a CDI folder on a disk) name a partition that is gone, and no journal tells of the reboot: a reset may have removed it.

    A claim that the API confirms keeps its device, and has files of the partition that is made anew; nobody else has any.
    """
    node = killable.node
    node.start()
    claim = await killable.running("c", PLACE)
    (file,) = node.cdi.iterdir()
    text = file.read_text()
    await node.kill()
    _lose(killable, "gone")
    await node.lose_partition(PLACE)
    node.reboot()
    file.write_text(text)
    if not known:
        await node.delete_claim(claim)
    node.start()

    async def left() -> list[str]:
        return [each.name for each in node.cdi.iterdir()]

    if known:
        await node.create_partition(PLACE, claim)
        await node.prepare(claim, PLACE.device, PLACE.card)
        (live,) = killable.cuts()
        assert str(live.uuid) in file.read_text()
        await node.unprepare(claim)
    await eventually(left, lambda names: names == [])
    assert killable.ask_journal("SELECT * FROM claims") == []
    await killable.tainted(PLACE.device)
    await node.unprepare(claim)


async def test_one_that_is_being_removed_is_not_forgotten(killable: KillableNode) -> None:
    """Its object goes when its hardware has gone, not because the journal knows of none."""
    node = killable.node
    node.start()
    await node.create_partition(PLACE, None)
    await killable.phase(PLACE, "Idle")
    await node.kill()
    _lose(killable, "broken")
    await node.delete_partition(PLACE)
    node.start()
    await node.wait_removed(PLACE)
    assert killable.cuts() == []


@pytest.mark.parametrize("step", ["hardware.half_made", "hardware.created"])
async def test_one_that_was_being_cut_is_finished(killable: KillableNode, step: str) -> None:
    """Killed in the cut and the journal lost at once: the API says that we were about to."""
    node = killable.node
    doomed = node.start(kill_at=step)
    await node.create_partition(PLACE, None)
    await doomed.exited
    _lose(killable, "broken")
    node.start()
    ready = await killable.phase(PLACE, "Idle")
    assert [cut.uuid for cut in killable.cuts()] == [ready["status"]["uuid"]]


async def test_one_that_was_being_cut_is_ours_after_a_second_kill(killable: KillableNode) -> None:
    """The agent that finds the journal lost is killed before it has looked at the card; the next one still knows."""
    node = killable.node
    doomed = node.start(kill_at="hardware.created")
    await node.create_partition(PLACE, None)
    await doomed.exited
    _lose(killable, "gone")
    killable.fake.kill("nvmlDeviceGetGpuInstances", after=False)
    await node.start().exited
    node.start()
    ready = await killable.phase(PLACE, "Idle")
    assert [cut.uuid for cut in killable.cuts()] == [ready["status"]["uuid"]]


async def test_a_full_disk_costs_no_partition(killable: KillableNode) -> None:
    """Killed in a cut, and the disk full at every start, without ballast, until somebody frees it: the partition is still ours, and the only one."""
    node = killable.node
    state = killable.journal.parent
    with small_disk(state) as disk:
        doomed = node.start(kill_at="hardware.created")
        await node.create_partition(PLACE, None)
        await doomed.exited
        # A clean end removes the log of SQLite, which the next start has to make.
        with closing(sqlite3.connect(killable.journal)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (state / "journal.ballast").unlink()
        disk.fill()
        for _ in range(2):
            assert await node.start().exited == 1
            said = node.log_tail(3)
            assert str(killable.journal) in said
            assert "Traceback" not in said
        disk.free()
        node.start()
        ready = await killable.phase(PLACE, "Idle")
        assert [cut.uuid for cut in killable.cuts()] == [ready["status"]["uuid"]]
        assert not list(state.glob("*.broken*"))
        await node.kill()


async def test_a_partition_that_cannot_be_written_down_says_so_and_is_cut_once_there_is_room(
    killable: KillableNode,
) -> None:
    """The disk fills under the running agent: the Partition fails with the reason, so that its claim may go elsewhere; nothing is cut unnoticed."""
    node = killable.node
    with small_disk(killable.journal.parent) as disk:
        node.start()
        await node.wait_published()
        disk.fill()
        await node.create_partition(PLACE, None)
        failed = await killable.phase(PLACE, "Failed")
        (ready,) = [row for row in failed["status"]["conditions"] if row["type"] == "Ready"]
        assert ready["reason"] == "NoJournal"
        assert "full" in ready["message"]
        assert not killable.cuts()
        disk.free()
        await killable.phase(PLACE, "Idle")
        assert len(killable.cuts()) == 1
        await node.kill()
