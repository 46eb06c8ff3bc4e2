"""A journal that is gone or broken: what is prepared stays prepared, what is ours stays ours, and nothing is left over."""

import pytest

from testbed.eventually import eventually
from tests.agent.scene import Scene, place

PLACE = place("3g.40gb", 4)
OTHER = place("1g.10gb", 0)


def _lose(scene: Scene, how: str) -> None:
    for suffix in ("-wal", "-shm"):
        scene.journal.with_name(scene.journal.name + suffix).unlink(missing_ok=True)
    if how == "gone":
        scene.journal.unlink()
    else:
        scene.journal.write_bytes(b"this was a database once" * 1000)


@pytest.mark.parametrize("how", ["gone", "broken"])
async def test_prepared_claims_are_recollected(scene: Scene, how: str) -> None:
    """From their files, the API and the hardware: nobody else gets their devices, a partition or a whole card."""
    node = scene.node
    node.start()
    part = await scene.running("part", PLACE)
    (live,) = scene.cuts()
    await node.kill()
    _lose(scene, how)
    await node.delete_claim(part)
    await node.delete_partition(PLACE)
    node.start()
    query = "SELECT uid, name, step FROM claims"
    await scene.journal_says(query, (part["metadata"]["uid"], f"{node.name}-part", "Prepared"))
    assert scene.journal.with_suffix(".broken").exists() == (how == "broken")
    # Its claim is gone and its object is being deleted: as long as it runs, it stays.
    await scene.tainted(PLACE.device, "held")
    assert scene.cuts() == [live]
    await node.unprepare(part)
    await node.wait_removed(PLACE)
    assert scene.cuts() == []


async def test_a_whole_card_in_use_is_recollected(scene: Scene) -> None:
    """It has no Partition object: only its files say that a container has it."""
    node = scene.node
    node.start()
    claim = await node.create_claim("whole", "gpu-0")
    await node.prepare(claim, "gpu-0", "gpu-0")
    await node.kill()
    _lose(scene, "gone")
    await node.create_partition(OTHER, None)
    node.start()
    waiting = await scene.phase(OTHER, "Pending")
    assert "gpu-0 is prepared whole" in waiting["status"]["conditions"][0]["message"]
    assert node.hardware.whole("gpu-0")
    await node.unprepare(claim)
    await scene.phase(OTHER, "Idle")


async def test_after_a_reboot_nothing_is_recollected(scene: Scene) -> None:
    """Files that a reboot left (a CDI folder on a disk) name a partition that is gone: nobody has it."""
    node = scene.node
    node.start()
    claim = await scene.running("c", PLACE)
    (file,) = node.cdi.iterdir()
    text = file.read_text()
    await node.kill()
    _lose(scene, "gone")
    await node.lose_partition(PLACE)
    node.reboot()
    file.write_text(text)
    node.start()

    async def left() -> list[str]:
        return [each.name for each in node.cdi.iterdir()]

    await eventually(left, lambda names: names == [])
    assert scene.ask_journal("SELECT * FROM claims") == []
    await scene.tainted(PLACE.device)
    await node.unprepare(claim)


async def test_one_that_is_being_removed_is_not_forgotten(scene: Scene) -> None:
    """Its object goes when its hardware has gone, not because the journal knows of none."""
    node = scene.node
    node.start()
    await node.create_partition(PLACE, None)
    await scene.phase(PLACE, "Idle")
    await node.kill()
    _lose(scene, "broken")
    await node.delete_partition(PLACE)
    node.start()
    await node.wait_removed(PLACE)
    assert scene.cuts() == []


@pytest.mark.parametrize("step", ["hardware.half_made", "hardware.created"])
async def test_one_that_was_being_cut_is_finished(scene: Scene, step: str) -> None:
    """Killed in the cut and the journal lost at once: the API says that we were about to."""
    node = scene.node
    doomed = node.start(kill_at=step)
    await node.create_partition(PLACE, None)
    await doomed.exited
    _lose(scene, "broken")
    node.start()
    ready = await scene.phase(PLACE, "Idle")
    assert [cut.uuid for cut in scene.cuts()] == [ready["status"]["uuid"]]
