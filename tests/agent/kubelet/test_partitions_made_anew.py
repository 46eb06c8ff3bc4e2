"""A partition that a reset took and the worker made anew, under a claim that has it: the claim's files say which one it is now."""

from pathlib import Path

from apportion.agent.cdi import CdiFolder
from apportion.cluster.kinds import CLAIMS
from testbed.beside import beside
from testbed.eventually import eventually
from tests.agent.kubelet.filesbelow import REF, preparer, written
from tests.agent.kubelet.test_recollection import cut_for_claim, recollected
from tests.agent.lifecycle.monitored import monitored
from tests.agent.lifecycle.onecard import DEVICE, OneCard, one_card
from tests.agent.nvml.nodes import Node, Nodes
from tests.agent.places import GPU


async def renewed(folder: Path, node: OneCard, gpu: Node) -> str:
    """Have the partition of a prepared claim made anew, and the claim's files renewed by the next poll of the hardware; return the new UUID."""
    await cut_for_claim(node)
    served = preparer(folder, node, DEVICE)
    await served.prepare(REF)
    (file,) = (folder / "cdi").glob("*.json")
    monitor, _ = monitored(node, files_interval=1000.0)

    async def text() -> str:
        return file.read_text() if file.exists() else ""

    file.unlink()
    async with beside(monitor.keep_files([served])):
        # The look at all files and the one after the first poll put back what is missing; either could see what is made anew if it came later.
        await eventually(text)
        file.unlink()
        await monitor.check(partitions=True)
        await eventually(text)
        gpu.fake.reset(0)
        await node.work()
        (after,) = await node.live()
        assert after.uuid not in file.read_text()
        await monitor.check(partitions=True)
        await eventually(text, lambda found: after.uuid in found)
    return after.uuid


async def test_a_container_that_restarts_finds_the_partition_that_was_made_anew(
    tmp_path: Path, make_gpus: Nodes
) -> None:
    """It has the same device numbers, and variables and metadata named the one that is gone."""
    gpu = make_gpus()
    async with one_card(tmp_path, gpu.backend) as node:
        uuid = await renewed(tmp_path, node, gpu)
        (metadata,) = (tmp_path / "p" / GPU).glob(f"*/{REF.uid}/*/metadata.json")
        assert uuid in metadata.read_text()


async def test_a_claim_is_recollected_while_its_partition_waits_to_be_made_anew(
    tmp_path: Path, make_gpus: Nodes
) -> None:
    """The journal is lost with the reset, so that the files name what is gone. The API confirms the claim: nobody else may get its device."""
    gpu = make_gpus()
    async with one_card(tmp_path, gpu.backend) as node:
        await cut_for_claim(node)
        await preparer(tmp_path, node, DEVICE).prepare(REF)
        seen = node.items
    gpu.fake.reset(0)
    async with one_card(tmp_path, gpu.anew(), "lost", seen=seen) as node:
        node.server.put(CLAIMS, written(DEVICE))
        assert await recollected(tmp_path, node) == 1
        await preparer(tmp_path, node, known=False).remove_orphans()
        assert CdiFolder(tmp_path / "cdi").claims(GPU) == {REF.uid}
