"""The whole agent on the fake driver and a real API server: killed inside the driver's calls, nothing is lost or left."""

from dataclasses import replace

import pytest

from testbed.eventually import eventually
from testbed.fakes.nvml.host import CAPABILITIES_MAJOR
from tests.agent.killedagent import journal_steps, killed_agent
from tests.agent.nvml.nodes import MakeFake
from tests.agent.simulatednode import holder

DEVICE = "gpu-0-mig-3g40gb-9-4"
CALLS = [
    "nvmlDeviceSetMigMode",
    "nvmlDeviceCreateGpuInstanceWithPlacement",
    "nvmlGpuInstanceCreateComputeInstance",
    "nvmlComputeInstanceDestroy",
    "nvmlGpuInstanceDestroy",
]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("call", CALLS)
async def test_a_kill_inside_a_driver_call_is_made_good(
    faked: MakeFake, namespace: str, call: str, *, after: bool
) -> None:
    """One partition, never two; its device files in the container; at the end no instance is left."""
    async with faked() as (node, fake):
        fake.kill(call, after=after)
        async with killed_agent(node, "never") as agent:
            claim = await node.claim(namespace, "lives", DEVICE)
            uid = claim["metadata"]["uid"]
            await node.partition(DEVICE, "3g.40gb", holder=holder(claim))
            ready = await agent.insist(lambda: node.phase(DEVICE, "Ready"))
            (live,) = fake.instances()
            assert (live.profile, live.start) == ("3g.40gb", 4)
            assert [one.uuid for one in live.compute] == [ready["status"]["uuid"]]
            answer = await agent.insist(lambda: node.prepare(claim))
            assert answer[uid].error == ""
            (cdi,) = node.cdi().values()
            files = cdi["devices"][0]["containerEdits"]["deviceNodes"]
            assert [file["major"] for file in files if "nvidia-cap" in file["path"]] == [
                CAPABILITIES_MAJOR
            ] * 2
            await agent.insist(lambda: node.unprepare(claim))
            assert fake.instances() == (live,)
            await node.remove(DEVICE)
            await agent.insist(lambda: eventually(lambda: node.see(DEVICE), lambda item: item == {}))
            assert fake.instances() == ()
            # The mode goes with the instance, in a call of its own; a mode left on has no effect until a claim needs
            # the whole GPU, and that makes it whole.
            assert fake.mode(0)[0] == (call == "nvmlGpuInstanceDestroy" and after)
            assert journal_steps(node) == ([], [])
            assert agent.deaths == 1


async def test_a_whole_gpu_is_made_whole_before_it_is_used(faked: MakeFake, namespace: str) -> None:
    """MIG mode that a crash left on would leave the container without a GPU; programs on it make the claim wait."""
    async with faked() as (node, fake):
        fake.set_mode(0, on=True)
        fake.occupy_gpu(0, 4711)
        async with killed_agent(node, "never") as agent:
            claim = await node.claim(namespace, "whole", "gpu-0")
            uid = claim["metadata"]["uid"]
            answer = await agent.insist(lambda: eventually(lambda: node.prepare(claim), bool))
            assert "MIG mode cannot be switched off while programs use the GPU" in answer[uid].error
            assert node.cdi() == {}
            fake.occupy_gpu(0, 0)
            assert await node.prepared(claim) == ""
            assert fake.mode(0) == (False, False)
            # Asked again, as kubelet does after its restart, while the container runs.
            fake.occupy_gpu(0, 4711)
            assert await node.prepared(claim) == ""


async def test_nothing_is_prepared_on_a_card_that_does_not_answer(faked: MakeFake, namespace: str) -> None:
    """What was seen last is no reason to start a container; once the card answers, the claim gets its partition."""
    async with faked() as (node, fake):
        node.options = replace(node.options, prepare_timeout=5)
        async with killed_agent(node, "never") as agent:
            claim = await node.claim(namespace, "lost", DEVICE)
            uid = claim["metadata"]["uid"]
            await node.partition(DEVICE, "3g.40gb", holder=holder(claim))
            await agent.insist(lambda: node.phase(DEVICE, "Ready"))
            fake.lose(0)
            answer = await agent.insist(lambda: eventually(lambda: node.prepare(claim), bool))
            assert "cannot be seen" in answer[uid].error
            assert node.cdi() == {}
            fake.heal()

            async def error() -> str:
                return await node.prepared(claim)

            # Kubelet asks again; one call waits for a few seconds only here.
            await eventually(error, lambda text: text == "")
