"""What an idle agent asks the driver, counted by the driver: looks at partitions cost the most, and are rare."""

from collections import Counter
from dataclasses import replace

from testbed.eventually import eventually
from tests.agent.killedagent import killed_agent
from tests.agent.nvml.nodes import MakeFake
from tests.agent.simulatednode import holder

PARTS = ("gpu-0-mig-1g10gb-19-0", "gpu-0-mig-1g10gb-19-1", "gpu-1-mig-1g10gb-19-0")
POLL = "nvmlDeviceGetTotalEccErrors"
"""Asked once of each GPU at each poll of the health."""
LOOK = ("nvmlGpuInstanceGetInfo", "nvmlComputeInstanceGetInfo_v2", "nvmlDeviceGetComputeRunningProcesses_v3")
"""Asked once of each partition at a look at these."""
POLLS = 60


async def test_an_idle_agent_looks_at_partitions_at_every_fifth_poll_only(
    faked: MakeFake, namespace: str
) -> None:
    """Each look asks once for each partition, whose number may be fifty-six on a node."""
    async with faked("H100-80GB", "H100-80GB") as (node, fake):
        node.options = replace(node.options, health_interval=0.05)
        async with killed_agent(node, "never"):
            for device in PARTS:
                claim = await node.claim(namespace, device, device)
                await node.partition(device, "1g.10gb", holder=holder(claim))

            async def calls() -> Counter[str]:
                return Counter(fake.calls())

            def polled(since: Counter[str], most: int) -> bool:
                return since[POLL] >= 2 * most

            # Until nothing of the cutting is left to be looked at.
            await eventually(calls, lambda _: len(fake.instances()) == len(PARTS))
            settled = await calls()
            await eventually(calls, lambda now: polled(now - settled, POLLS))
            before = await calls()
            after = await eventually(calls, lambda now: polled(now - before, POLLS))
            idle = after - before
            most = len(PARTS) * (idle[POLL] // 2 // 5 + 2)
            assert {name: idle[name] for name in LOOK if not 0 < idle[name] <= most} == {}
