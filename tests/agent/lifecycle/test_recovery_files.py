"""Gaps in the crash safety of a comparable DRA driver that concern files: each test shows that ours has it not."""

import pytest

from testbed.chaos.objects import DRIVER
from testbed.eventually import eventually
from tests.agent.killablenode import KillableNode, place

PLACE = place("3g.40gb", 4)
DEAD = "6f0d2a3e-0000-4000-8000-000000000001"


@pytest.mark.parametrize("damage", ["removed", "emptied", "of another partition"])
async def test_a_cdi_file_is_verified_on_each_prepare(killable: KillableNode, damage: str) -> None:
    """Kubelet asks again after its restart; the claim is prepared already, and still its file is looked at.

    Peer: a claim that is in the checkpoint keeps its CDI file unread.
    """
    node = killable.node
    node.start()
    claim = await killable.running("c", PLACE)
    file = node.cdi / f"{DRIVER}_{claim['metadata']['uid']}.json"
    right = file.read_text()
    match damage:
        case "removed":
            file.unlink()
        case "emptied":
            file.write_text("")
        case _:
            file.write_text(right.replace("MIG-", "MIG-0"))
    await node.kill()
    node.start()
    await node.prepare(claim, PLACE.device, "gpu-0")
    assert file.read_text() == right


async def test_files_of_dead_claims_are_collected(killable: KillableNode) -> None:
    """Whole and unfinished CDI files and metadata folders; what belongs to others stays.

    Peer: CDI files of claims that are gone are never collected.
    """
    node = killable.node
    node.start()
    claim = await killable.running("lives", PLACE)
    await node.kill()
    strange = node.cdi / "nvidia.com_gpu.json"
    orphan = node.cdi / f"{DRIVER}_{DEAD}.json"
    unfinished = orphan.with_suffix(".new")
    metadata = node.folder / "p" / DRIVER / "dra-device-metadata" / DEAD
    metadata.mkdir()
    for file in (strange, orphan, unfinished):
        file.write_text("{}")
    node.start()

    async def left() -> set[str]:
        return {file.name for file in (*node.cdi.iterdir(), *metadata.parent.iterdir())}

    kept = {strange.name, f"{DRIVER}_{claim['metadata']['uid']}.json", claim["metadata"]["uid"]}
    await eventually(left, lambda names: names == kept)
