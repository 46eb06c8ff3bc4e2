"""A disk that is full or read-only refuses a claim, with the reason, and costs nothing else of the agent."""

from dataclasses import replace
from pathlib import Path

import pytest

from apportion.agent.kubelet.claimstatus import ClaimStatusWriter
from apportion.agent.rows import ClaimStep
from apportion.cluster.client import Object
from apportion.cluster.kinds import CLAIMS
from apportion.errors import NotReady
from testbed.beside import beside
from testbed.eventually import eventually
from tests.agent.journal.smalldisk import small_disk
from tests.agent.kubelet.filesbelow import REF, held_claims, preparer, written
from tests.agent.lifecycle.onecard import OneCard, one_card
from tests.agent.places import H100, MakeBackend


def condition(node: OneCard) -> tuple[str, str]:
    """Return status and reason of what the claim says of its device, ("", "") as long as it says nothing."""
    claim: Object = node.server.get(CLAIMS, REF.name, REF.namespace)
    rows = [row for device in claim["status"].get("devices", ()) for row in device["conditions"]]
    return (rows[0]["status"], rows[0]["reason"]) if rows else ("", "")


@pytest.mark.parametrize("full", ["files", "journal"])
async def test_a_claim_that_cannot_be_prepared_says_why_until_there_is_room(
    tmp_path: Path, make_backend: MakeBackend, full: str
) -> None:
    """Kubelet shows it on the pod, and the claim has a condition; nothing says Ready before it is."""
    with small_disk(tmp_path / "disk") as disk:
        files, memory = (disk.folder, tmp_path) if full == "files" else (tmp_path, disk.folder)
        async with one_card(memory, make_backend(cards=[H100])) as node:
            status = ClaimStatusWriter(node.api, node.context.now)
            served = preparer(files, node, "gpu-0", claim_status=status)

            async def said() -> tuple[str, str]:
                return condition(node)

            def at(step: str) -> None:
                # The last step of the claim is all that is still to be written.
                if full == "files" or step == "claim.injected":
                    disk.fill()

            node.context.at = at
            async with beside(status.run()):
                with pytest.raises(NotReady, match=r"No space left on device|disk is full"):
                    await served.prepare(REF)
                assert await eventually(said, any) == ("False", "NotReady")
                (row,) = node.context.journal.claims()
                assert row.step is (ClaimStep.PREPARING if full == "files" else ClaimStep.INJECTED)
                node.context.at = lambda _: None
                disk.free()
                (device,) = await served.prepare(REF)
                await eventually(said, lambda found: found[0] == "True")
    assert device.device == "gpu-0"


async def test_claims_are_unprepared_on_a_full_disk_one_after_the_other(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """Kubelet removes what a pod has written after its claims are unprepared: a pod that filled the disk would never end."""
    refs = [replace(REF, name=f"c{number}", uid=f"{REF.uid[:-2]}{number:02}") for number in range(10)]
    with small_disk(tmp_path / "disk") as disk:
        async with one_card(disk.folder, make_backend(cards=[H100 | {"count": len(refs)}])) as node:
            served = preparer(tmp_path, node, known=False)
            for number, ref in enumerate(refs):
                claim = written(f"gpu-{number}", uid=ref.uid)
                node.server.put(CLAIMS, claim | {"metadata": claim["metadata"] | {"name": ref.name}})
                await served.prepare(ref)
            for ref in refs:
                disk.fill()
                await served.unprepare(ref)
            assert node.context.journal.claims() == ()


@pytest.mark.parametrize("boot", ["boot", "the next one"], ids=["start", "reboot"])
async def test_an_agent_that_starts_on_a_full_disk_unprepares_claims(
    tmp_path: Path, make_backend: MakeBackend, boot: str
) -> None:
    """It is updated, or the node reboots, while a pod fills the disk: no agent would start as long as the pod has not ended, nor the pod end."""
    with small_disk(tmp_path / "disk") as disk:
        async with one_card(disk.folder, make_backend(cards=[H100])) as node:
            await preparer(tmp_path, node, "gpu-0").prepare(REF)
        disk.fill()
        async with one_card(disk.folder, make_backend(cards=[H100]), boot=boot) as node:
            assert len(node.context.journal.claims()) == (boot == "boot")
            await preparer(tmp_path, node, known=False).unprepare(REF)
            assert node.context.journal.claims() == ()


async def test_the_ballast_is_made_anew_once_the_disk_has_room(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """It is given up for the unprepare, and the next pod that fills the disk ends, too."""
    with small_disk(tmp_path / "disk") as disk:
        async with one_card(disk.folder, make_backend(cards=[H100])) as node:
            ballast = disk.folder / "journal.ballast"
            whole = ballast.stat().st_size
            await preparer(tmp_path, node, "gpu-0").prepare(REF)
            disk.fill()
            await preparer(tmp_path, node, known=False).unprepare(REF)
            assert ballast.stat().st_size < whole
            disk.free()
            await preparer(tmp_path, node, "gpu-0").prepare(REF)
            assert ballast.stat().st_size == whole


async def test_a_read_only_disk_does_not_end_what_looks_for_lost_claims(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """The agent would end and start anew for ever. The device stays held, and is free once its files can be removed."""
    with small_disk(tmp_path / "disk") as disk:
        async with one_card(tmp_path, make_backend(cards=[H100])) as node:
            await preparer(disk.folder, node, "gpu-0").prepare(REF)
            (row,) = node.context.journal.claims()
            node.context.journal.put_claim(replace(row, step=ClaimStep.INJECTED))
            node.server.drop(CLAIMS, REF.name, REF.namespace)
            claims = held_claims(disk.folder, node)
            disk.writable(on=False)
            await claims.check()
            assert [each.uid for each in claims.rows()] == [REF.uid]
            disk.writable(on=True)
            await claims.check()
            assert claims.rows() == ()
            assert node.context.journal.claims() == ()
