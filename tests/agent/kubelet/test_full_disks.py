"""A disk that is full or read-only refuses a claim, with the reason, and costs nothing else of the agent."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from apportion.agent.journal import Journal
from apportion.agent.kubelet.claimstatus import ClaimStatusWriter
from apportion.agent.kubelet.heldclaims import HeldClaims
from apportion.agent.rows import ClaimRow, ClaimStep
from apportion.cluster.client import Object
from apportion.errors import Missing, NotReady
from testbed.beside import beside
from testbed.eventually import eventually
from tests.agent.journal.smalldisk import small_disk
from tests.agent.kubelet.filesbelow import REF, preparer
from tests.agent.lifecycle.onecard import OneCard, one_card
from tests.agent.places import GPU, H100, MakeBackend


def conditions(patch: pytest.MonkeyPatch, node: OneCard) -> list[Object]:
    """Have the API server take conditions of the claim; returns those that it gets."""
    written: list[Object] = []
    result = {"request": "r0", "driver": GPU, "pool": "n", "device": "gpu-0"}

    async def get(*_: object, **__: str) -> Object:
        return {
            "metadata": {
                "name": REF.name,
                "namespace": REF.namespace,
                "uid": REF.uid,
                "resourceVersion": "1",
            },
            "status": {"allocation": {"devices": {"results": [result]}}},
        }

    async def update(_: object, __: str, body: Object, **___: str) -> Object:
        written.extend(body["status"]["devices"][0]["conditions"])
        return body

    patch.setattr(node.api, "get", get)
    patch.setattr(node.api, "patch", update)
    return written


@pytest.mark.parametrize("full", ["files", "journal"])
async def test_a_claim_that_cannot_be_prepared_says_why_until_there_is_room(
    tmp_path: Path, make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    """Kubelet shows it on the pod, and the claim has a condition; nothing says Ready before it is."""
    with small_disk(tmp_path / "disk") as disk:
        async with one_card(tmp_path, make_backend(cards=[H100])) as node:
            written = conditions(monkeypatch, node)
            status = ClaimStatusWriter(node.api, node.context.now)
            served = preparer(disk.folder, node, "gpu-0", claim_status=status)
            steps = Journal.put_claim
            if full == "files":
                disk.fill()
            else:

                def put_claim(journal: Journal, row: ClaimRow) -> None:
                    if row.step is ClaimStep.PREPARED:
                        raise NotReady("the journal cannot be written: database or disk is full")
                    steps(journal, row)

                monkeypatch.setattr(Journal, "put_claim", put_claim)
            async with beside(status.run()):
                with pytest.raises(NotReady, match=r"No space left on device|disk is full"):
                    await served.prepare(REF)
                await eventually(lambda: asyncio.sleep(0, len(written)), bool)
                assert [(row["status"], row["reason"]) for row in written] == [("False", "NotReady")]
                disk.free()
                monkeypatch.setattr(Journal, "put_claim", steps)
                (device,) = await served.prepare(REF)
                await eventually(lambda: asyncio.sleep(0, len(written)), lambda count: count == 2)
    assert (device.device, written[-1]["status"]) == ("gpu-0", "True")


async def test_a_read_only_disk_does_not_end_what_looks_for_lost_claims(
    tmp_path: Path, make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent would end and start anew for ever. The device stays held, and is free once its files can be removed."""
    with small_disk(tmp_path / "disk") as disk:
        async with one_card(tmp_path, make_backend(cards=[H100])) as node:

            async def get(*_: object, **__: str) -> Object:
                raise Missing("ResourceClaim default/c")

            served = preparer(disk.folder, node, "gpu-0", known=True)
            await served.prepare(REF)
            (row,) = node.context.journal.claims()
            node.context.journal.put_claim(replace(row, step=ClaimStep.INJECTED))
            gone = preparer(disk.folder, node, known=False)
            monkeypatch.setattr(node.api, "get", get)
            claims = HeldClaims(node.context, abandon=lambda _: gone.abandon(REF))
            disk.writable(on=False)
            await claims.check()
            assert [each.uid for each in claims.rows()] == [REF.uid]
            disk.writable(on=True)
            await claims.check()
            assert claims.rows() == ()
            assert node.context.journal.claims() == ()
