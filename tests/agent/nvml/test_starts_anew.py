"""An agent that starts anew because a driver is back: what it prepares of other drivers' devices is finished first."""

from dataclasses import replace

import yaml

from testbed.eventually import eventually
from testbed.kubelet.plugin import ClaimKey, PluginError
from tests.agent.killedagent import journal_steps, killed_agent
from tests.agent.lifecycle.test_ending_cuts import being_prepared, kubelet_beside
from tests.agent.nvml.nodes import MakeFake
from tests.agent.nvml.test_driver_upgrade import PAUSED, label, session
from tests.agent.places import NPU
from tests.agent.simulatednode import holder

DEVICE, TEMPLATE = "npu-0-vir05-1c-8g-2", "vir05_1c_8g"


async def test_a_pod_with_another_vendors_device_does_not_wait_for_the_next_agent(
    faked: MakeFake, namespace: str
) -> None:
    """Kubelet tries a pod whose prepare broke off again after a minute or more."""
    async with faked() as (node, fake):
        simulation = {"cards": [{"model": "910B4"}], "faults": {"createDelay": 3}}
        (node.folder / "node.yaml").write_text(yaml.safe_dump(simulation))
        (node.folder / "r").mkdir()
        node.options = replace(node.options, backend="nvml,simulated")
        async with killed_agent(node, "never") as agent, kubelet_beside(node.folder / "r") as kubelet:

            async def served() -> bool:
                return NPU in kubelet.drivers

            async def being_cut() -> list[bool]:
                return [row["complete"] for row in node.hardware()]

            await eventually(served)
            await label(node, PAUSED)
            await eventually(session(fake.held), lambda held: not held)
            claim = await node.claim(namespace, "waits", DEVICE, driver=NPU)
            meta = claim["metadata"]
            key = ClaimKey(meta["namespace"], meta["name"], meta["uid"])
            asked = await being_prepared(node, kubelet.of(NPU), key)
            await node.partition(DEVICE, TEMPLATE, holder=holder(claim), driver=NPU)
            await eventually(being_cut, lambda complete: complete == [False])
            await label(node, "true")
            (answer,) = (await asked).values()
            assert not isinstance(answer, PluginError)
            assert await agent.ended() == 1
        assert "that was let go of answers" in (node.folder / "agent.log").read_text()
        assert journal_steps(node) == (["Ready"], ["Prepared"])
