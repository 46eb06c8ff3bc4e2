"""A card that does not answer any more: what is on it is unknown, and keeps nobody waiting who could go elsewhere."""

from contextlib import suppress
from pathlib import Path

import pytest

from apportion.errors import Lost
from tests.agent.lifecycle.onecard import one_card
from tests.agent.lifecycle.test_silent_cards import silence
from tests.agent.nvml.nodes import Nodes

FIRST = "gpu-0-mig-3g40gb-9-0"
HOLDER = {"kind": "ResourceClaim", "namespace": "team", "name": "c", "uid": "c"}


@pytest.mark.slow
@pytest.mark.parametrize("other", ["stays", "goes", "goes, and the journal is lost"])
async def test_a_claim_hears_that_its_card_is_dead_whatever_else_was_on_the_card(
    tmp_path: Path, make_gpus: Nodes, other: str
) -> None:
    """The look at the other partition ended each round: the claim's pod waited behind its gate for as long as the card was dead."""
    gpu = make_gpus()
    async with one_card(tmp_path, gpu.backend) as former:
        item = former.partition("p1", FIRST)
        await former.work()
        if other != "stays":
            former.delete(item)
        seen = former.items
    journal = "lost" if "lost" in other else "journal"
    async with one_card(tmp_path, gpu.anew(), journal, seen=seen) as node:
        silence(gpu)
        wanted = node.partition("p2", origin="Claim", holder=HOLDER)
        with suppress(Lost):
            await node.work()
        assert node.status(wanted)["phase"] == "Failed"
        assert len(node.items) == 2, "what may be on the card keeps its object"
        gpu.fake.drop_rules()
        await node.work()
        assert len(node.items) == (2 if other == "stays" else 1)
        assert len(await node.live()) == len(node.items)
