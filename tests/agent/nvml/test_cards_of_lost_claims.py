"""A lost journal: claims that run keep the GPUs that they have, under whatever name, whether these are there yet, or not any more."""

import pytest

from testbed.api import Json
from testbed.eventually import eventually
from tests.agent.killedagent import KilledAgent, killed_agent
from tests.agent.nvml.nodes import MakeFake
from tests.agent.simulatednode import SLICES, SimulatedNode


async def in_use(agent: KilledAgent, node: SimulatedNode, namespace: str, *gpus: str) -> Json:
    """Have a claim prepared with GPUs; returns it once all is published."""
    claim = await node.claim(namespace, "runs", *gpus)
    assert await refusal(agent, node, claim) == ""
    await eventually(node.devices, bool)
    return claim


async def refusal(agent: KilledAgent, node: SimulatedNode, claim: Json) -> str:
    """Return why a claim is not prepared, "" when it is."""
    (answer,) = (await agent.insist(lambda: eventually(lambda: node.prepare(claim), bool))).values()
    return str(answer.error)


def lose_journal(node: SimulatedNode) -> None:
    """Remove it while no agent runs."""
    for path in node.options.state_dir.glob("journal.db*"):
        path.unlink()


async def test_the_other_card_of_a_claim_is_not_given_away(faked: MakeFake, namespace: str) -> None:
    """The pod of the first claim was deleted by force and its containers run on; its second GPU has fallen off the bus."""
    async with faked("H100-80GB", "H100-80GB") as (node, fake):
        async with killed_agent(node, "never") as agent:
            claim = await in_use(agent, node, namespace, "gpu-0", "gpu-1")
        lose_journal(node)
        fake.lose(1)
        await node.deallocate(claim)
        async with killed_agent(node, "never") as agent:
            other = await node.claim(namespace, "other", "gpu-0")
            assert "is held by ResourceClaim" in await refusal(agent, node, other)


async def test_a_claim_is_recovered_on_the_card_that_it_has(faked: MakeFake, namespace: str) -> None:
    """A GPU has left before, so that names are no indices; no agent ran for more than 30 s, so that kubelet has deleted the slices."""
    async with faked("H100-80GB", "H100-80GB", "H100-80GB") as (node, fake):
        async with killed_agent(node, "never"):
            await eventually(node.devices, bool)
        fake.take(0)
        async with killed_agent(node, "never") as agent:
            await in_use(agent, node, namespace, "gpu-1")
            (before,) = node.cdi().values()
        lose_journal(node)
        for item in await node.slices():
            await node.api.delete(f"{SLICES}/{item['metadata']['name']}")
        async with killed_agent(node, "never") as agent:
            devices = await eventually(node.devices, bool)
            uuids = {
                name: each["attributes"]["uuid"]["string"]
                for name, each in devices.items()
                if each["attributes"]["type"]["string"] == "gpu"
            }
            assert [name for name, uuid in uuids.items() if uuid in str(before)] == ["gpu-1"]
            other = await node.claim(namespace, "other", "gpu-1")
            assert "is held by ResourceClaim" in await refusal(agent, node, other)


@pytest.mark.slow
async def test_a_card_that_is_slow_at_each_start_ends_no_agent(faked: MakeFake, namespace: str) -> None:
    """The first answer of the only one takes 28 s, and the look for cards waits for 25: an agent that started anew for its claim would do so for ever."""
    async with faked("H100-80GB") as (node, fake):
        async with killed_agent(node, "never") as agent:
            await in_use(agent, node, namespace, "gpu-0")
        lose_journal(node)
        fake.delay("nvmlDeviceGetPciInfo_v3", 28, times=1, card=0)
        log = node.folder / "agent.log"

        async def said() -> bool:
            return "agent.card_changed" in log.read_text()

        async with killed_agent(node, "never") as agent:
            await agent.insist(lambda: eventually(said, within=50))
            other = await node.claim(namespace, "other", "gpu-0")
            assert "is held by ResourceClaim" in await refusal(agent, node, other)
            assert "gpu-0" in await eventually(node.devices, lambda devices: "gpu-0" in devices)
            assert log.read_text().count("agent.discovered") == 2
