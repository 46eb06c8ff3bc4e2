"""A chip in the slot of another one has its name, and nothing of what was done for the other one is done to it."""

import pytest

from testbed.eventually import eventually
from tests.agent.ascend.nodes import MakeFake
from tests.agent.killedagent import killed_agent
from tests.agent.places import NPU
from tests.agent.simulatednode import holder

DEVICE, TEMPLATE = "npu-0-vir05-1c-8g-2", "vir05_1c_8g"


async def test_a_claim_is_not_prepared_on_the_chip_that_came_for_its_own(
    faked: MakeFake, namespace: str
) -> None:
    """Its container may run on the one that was there; the refusal names both. A new claim gets the new chip."""
    async with faked("910B4") as (node, fake):
        claim = await node.claim(namespace, "before", "npu-0", driver=NPU)
        uid = claim["metadata"]["uid"]
        async with killed_agent(node, "never") as agent:
            answer = await agent.insist(lambda: node.prepare(claim, driver=NPU))
            assert answer[uid].error == ""
            files = node.cdi()
        with fake.changing() as state:
            state.chip[0].die[0] ^= 0xFF
        async with killed_agent(node, "never") as agent:
            answer = await agent.insist(lambda: node.prepare(claim, driver=NPU))
            assert "was prepared on NPU-" in answer[uid].error
            assert node.cdi() == files
            await agent.insist(lambda: node.unprepare(claim, driver=NPU))
            answer = await agent.insist(lambda: node.prepare(claim, driver=NPU))
            assert answer[uid].error == ""


@pytest.mark.parametrize("deleted", [False, True], ids=["kept", "deleted"])
async def test_a_partition_is_neither_cut_nor_removed_on_the_chip_that_came_for_its_own(
    faked: MakeFake, namespace: str, *, deleted: bool
) -> None:
    """What lies there under its id is another's, and that nothing lies there does not mean that it is gone."""
    async with faked("910B4") as (node, fake):
        claim = await node.claim(namespace, "c", DEVICE, driver=NPU)
        await node.partition(DEVICE, TEMPLATE, holder=holder(claim), driver=NPU)
        async with killed_agent(node, "never"):
            await node.phase(DEVICE, "Ready")
            (made,) = fake.vnpus()
        with fake.changing() as state:
            state.chip[0].die[0] ^= 0xFF
        if deleted:
            await node.remove(DEVICE)
        else:
            fake.remove_by_hand(made.id)
        there = fake.vnpus()
        async with killed_agent(node, "never"):

            async def reason() -> str:
                found = (await node.see(DEVICE)).get("status", {}).get("conditions") or [{}]
                return str(found[0].get("reason", ""))

            await eventually(reason, lambda said: said == "Lost")
            assert fake.vnpus() == there
