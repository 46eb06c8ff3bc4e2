"""Two agents of a node serve one claim, as in a rolling update: what one of them gives back the other does not take again."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from apportion.agent.journal import Journal
from apportion.agent.kubelet.claims import ClaimRef
from apportion.agent.rows import ClaimRow, ClaimStep
from apportion.errors import NotReady
from tests.agent.kubelet.filesbelow import REF, preparer
from tests.agent.kubelet.test_recollection import cut_for_claim
from tests.agent.lifecycle.onecard import DEVICE, one_card
from tests.agent.places import GPU, H100, MakeBackend

NEXT = ClaimRef("default", "next", "00000000-0000-4000-8000-00000000000d")


@pytest.mark.parametrize("device", ["gpu-0", DEVICE], ids=["whole", "part"])
@pytest.mark.parametrize("step", ["claim.preparing", "cdi.written", "claim.injected"])
async def test_a_claim_that_the_other_agent_unprepares_meanwhile_takes_no_device_of_the_next_one(
    tmp_path: Path, make_backend: MakeBackend, step: str, device: str
) -> None:
    """Its pod was deleted by force; kubelet unprepares by the agent that it registered last, while the former one still prepares."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        if device == DEVICE:
            await cut_for_claim(node)
        with closing(Journal(tmp_path / "journal.db", "boot")) as other:

            def unprepared(reached: str) -> None:
                row = other.claim(REF.uid, GPU)
                if reached == step and row is not None:
                    other.drop_claim(REF.uid, GPU)
                    other.reserve(replace(row, uid=NEXT.uid, name=NEXT.name))

            node.context.at = unprepared
            with pytest.raises(NotReady, match="was unprepared while it was being prepared"):
                await preparer(tmp_path, node, device).prepare(REF)
        assert [row.uid for row in node.context.journal.claims()] == [NEXT.uid]


@pytest.mark.parametrize("step", ["claim.preparing", "cdi.written", "claim.injected"])
async def test_a_claim_that_the_other_agent_prepares_anew_meanwhile_keeps_what_it_has_then(
    tmp_path: Path, make_backend: MakeBackend, step: str
) -> None:
    """It was allocated anew for its next pod, whose containers run: their device passed for free, and the former one was held for nobody."""
    async with one_card(tmp_path, make_backend(cards=[H100 | {"count": 2}])) as node:
        anew: list[ClaimRow] = []
        with closing(Journal(tmp_path / "journal.db", "boot")) as other:

            def prepared_anew(reached: str) -> None:
                row = other.claim(REF.uid, GPU)
                if reached == step and row is not None:
                    other.drop_claim(REF.uid, GPU)
                    card = node.context.hardware.cards["gpu-1"]
                    device = replace(row.devices[0], device="gpu-1", card="gpu-1", card_uuid=card.uuid)
                    anew.append(replace(row, devices=(device,), step=ClaimStep.PREPARED))
                    other.reserve(anew[0])

            node.context.at = prepared_anew
            with pytest.raises(NotReady, match="was unprepared while it was being prepared"):
                await preparer(tmp_path, node, "gpu-0").prepare(REF)
        assert list(node.context.journal.claims()) == anew
