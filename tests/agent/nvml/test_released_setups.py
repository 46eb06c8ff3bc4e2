"""What was set up for a claim that ends while the driver is let go of is taken back when the driver is there again."""

from testbed.eventually import eventually
from tests.agent.killedagent import killed_agent
from tests.agent.nvml.nodes import MakeFake
from tests.agent.nvml.sharinghost import mps, sharing_host
from tests.agent.nvml.test_control_daemons import EXCLUSIVE_PROCESS, prepared
from tests.agent.nvml.test_driver_upgrade import PAUSED, label, reasons, session
from tests.agent.nvml.test_sharing_left import settles


async def test_a_compute_mode_is_taken_back_after_a_pause_without_an_exchange(
    faked: MakeFake, namespace: str
) -> None:
    """The label asks for a pause, the pod is drained, and the label goes again: the GPU was neither reset nor its driver reloaded."""
    async with (
        faked() as (node, fake),
        sharing_host(node, fake) as host,
        killed_agent(node, "never") as agent,
    ):
        claim = await node.claim(namespace, "drained", "gpu-0", config=[mps()])
        assert await prepared(agent, host, claim) == ""
        assert fake.shared(0) == (EXCLUSIVE_PROCESS, 0)
        await label(node, PAUSED)
        await eventually(session(fake.held), lambda held: not held)
        assert await node.unprepared(claim) == ""
        await label(node, "true")
        assert await agent.ended() == 1
        await agent.start()
        await eventually(lambda: reasons(node), lambda found: found == {""})
        await settles(host, [])


async def test_a_compute_mode_is_taken_back_by_an_agent_that_started_during_the_pause(
    faked: MakeFake, namespace: str
) -> None:
    """It has opened no session and knows no card: nobody can say that the GPU has its defaults."""
    async with faked() as (node, fake), sharing_host(node, fake) as host:
        async with killed_agent(node, "never") as agent:
            claim = await node.claim(namespace, "drained", "gpu-0", config=[mps()])
            assert await prepared(agent, host, claim) == ""
        await label(node, PAUSED)
        async with killed_agent(node, "never") as agent:
            unprepared = await agent.insist(lambda: eventually(lambda: node.unprepare(claim), bool))
            assert unprepared == {claim["metadata"]["uid"]: ""}
            assert fake.shared(0) == (EXCLUSIVE_PROCESS, 0)
            await label(node, "true")
            assert await agent.ended() == 1
            await agent.start()
            await settles(host, [])
