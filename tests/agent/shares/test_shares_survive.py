"""Shares outlive what befalls the agent: a lost journal, a kill at any step, sharing that begins while a claim has the GPU."""

import pytest

from testbed.eventually import eventually
from tests.agent.killedagent import journal_steps, killed_agent
from tests.agent.places import H100
from tests.agent.shares.sharednode import (
    GIB,
    environment,
    shared,
    sharing,
)
from tests.agent.simulatednode import MakeNode, holder

PART = "gpu-0-mig-1g10gb-19-0"


@pytest.mark.parametrize("files_only", [False, True], ids=["with the API", "from the files"])
async def test_shares_survive_a_lost_journal(
    make_node: MakeNode, namespace: str, *, files_only: bool
) -> None:
    """Both claims are known as before, each with its part, though the API may not know one of them any more."""
    async with make_node(cards=[H100]) as node, sharing(node):
        async with node.agent():
            await shared(node)
            one = await node.share(namespace, "one", "gpu-0", "40Gi")
            two = await node.share(namespace, "two", "gpu-0", "30Gi")
            assert (await node.prepared(one), await node.prepared(two)) == ("", "")
        for path in (node.folder / "state").glob("journal.db*"):
            path.unlink()
        if files_only:
            await node.deallocate(one)
            await node.deallocate(two)
        async with node.agent():
            three = await node.share(namespace, "three", "gpu-0", "20Gi")
            assert "do not fit" in await node.prepared(three)
            assert journal_steps(node)[1] == ["Prepared", "Prepared"]


STEPS = [
    "claim.preparing",
    "cdi.written",
    "claim.injected",
    "claim.prepared",
    "claim.unpreparing",
    "cdi.removed",
    "claim.gone",
]


@pytest.mark.parametrize("step", STEPS)
async def test_a_kill_at_any_step_leaves_each_share_with_its_claim(
    make_node: MakeNode, namespace: str, step: str
) -> None:
    """Two claims of one GPU: at the end both had their part, and nothing is left of either."""
    async with make_node(cards=[H100]) as node, sharing(node), killed_agent(node, step) as agent:
        claims = [
            (await node.share(namespace, name, "gpu-0", f"{gib}Gi"), gib)
            for name, gib in (("ten", 10), ("sixty", 60))
        ]

        async def both() -> list[str]:
            return [await node.prepared(claim) for claim, _ in claims]

        await agent.insist(lambda: eventually(both, lambda errors: errors == ["", ""]))
        for claim, gib in claims:
            assert environment(node, claim)["APPORTION_R0_MEMORY"] == str(gib * GIB)
        for claim, _ in claims:
            await agent.insist(lambda claim=claim: node.unprepare(claim))
        assert node.cdi() == {}
        assert journal_steps(node) == ([], [])
        assert agent.deaths == 1


async def test_a_gpu_in_use_by_one_claim_stays_with_it_when_sharing_begins(
    make_node: MakeNode, namespace: str
) -> None:
    """Its containers run: a share waits, and so does a partition of a GPU that has shares."""
    async with make_node(cards=[H100 | {"count": 2}]) as node, node.agent():
        whole = await node.claim(namespace, "whole", "gpu-0")
        assert await node.prepared(whole) == ""
        async with sharing(node):
            await shared(node)
            share = await node.share(namespace, "share", "gpu-0", "10Gi")
            assert f"held by ResourceClaim {namespace}/whole" in await node.prepared(share)
            assert await node.prepared(whole) == ""
            beside = await node.share(namespace, "beside", "gpu-1", "10Gi")
            assert await node.prepared(beside) == ""
            part = "gpu-1-mig-1g10gb-19-0"
            claim = await node.claim(namespace, "part", part)
            await node.partition(part, "1g.10gb", holder=holder(claim))
            assert f"held by ResourceClaim {namespace}/beside" in await node.prepared(claim)
            assert node.hardware() == []
