"""Etcd was restored from a backup: a Partition comes back whose vNPU is gone, and another claim has its id by now."""

import pytest

from testbed.eventually import eventually
from tests.agent.ascend.nodes import MakeFake
from tests.agent.killedagent import killed_agent
from tests.agent.places import NPU
from tests.agent.simulatednode import PARTITIONS, holder

FIRST, SECOND, TEMPLATE = "npu-0-vir05-1c-8g-0", "npu-0-vir05-1c-8g-1", "vir05_1c_8g"


@pytest.mark.parametrize(
    "known", [False, True], ids=["the other object is gone", "the other object is there"]
)
async def test_a_partition_that_comes_back_takes_no_vnpu_from_the_claim_that_has_it(
    faked: MakeFake, namespace: str, *, known: bool
) -> None:
    """A vNPU has no UUID of its own: what stands for one is chip and id, which is given again. Both claims had one vNPU."""
    async with faked("910B4") as (node, _fake):
        async with killed_agent(node, "never") as agent:
            first = await node.claim(namespace, "first", FIRST, driver=NPU)
            await node.partition(FIRST, TEMPLATE, holder=holder(first), driver=NPU)
            backup = await agent.insist(lambda: node.phase(FIRST, "Ready"))
            await node.remove(FIRST)
            await agent.insist(lambda: eventually(lambda: node.see(FIRST), lambda item: item == {}))
            second = await node.claim(namespace, "second", SECOND, driver=NPU)
            await node.partition(SECOND, TEMPLATE, holder=holder(second), driver=NPU)
            await agent.insist(lambda: node.phase(SECOND, "Ready"))
            answer = await agent.insist(lambda: node.prepare(second, driver=NPU))
            assert answer[second["metadata"]["uid"]].error == ""
        # The restore, as an agent sees it that did not run meanwhile.
        await node.partition(FIRST, TEMPLATE, holder=holder(first), driver=NPU)
        await node.api.patch(f"{PARTITIONS}/{node.name}-{FIRST}/status", {"status": backup["status"]})
        if not known:
            await node.remove(SECOND)
            await node.api.patch(f"{PARTITIONS}/{node.name}-{SECOND}", {"metadata": {"finalizers": []}})
        async with killed_agent(node, "never") as agent:
            uid = first["metadata"]["uid"]

            async def error() -> str:
                return str((await node.prepare(first, driver=NPU))[uid].error)

            await agent.insist(lambda: eventually(error, lambda text: not text))
            files = [row["devices"][0]["containerEdits"]["deviceNodes"][-1] for row in node.cdi().values()]
            assert len(files) == 2
            assert files[0] != files[1]
