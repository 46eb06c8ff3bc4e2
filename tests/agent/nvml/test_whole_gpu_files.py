"""What a container gets for a whole GPU is what the GPU and the host have when it starts, not what they had at discovery."""

from collections.abc import Mapping

import pytest

from testbed.api import Json
from testbed.eventually import eventually
from testbed.fakes.nvml.library import FakeNvml
from tests.agent.killedagent import killed_agent
from tests.agent.nvml.driverhost import UBUNTU, VERSION, host
from tests.agent.nvml.nodes import MakeFake
from tests.agent.simulatednode import SimulatedNode, holder

MIG = "gpu-1-mig-3g40gb-9-4"


def numbers(cdi: Mapping[str, Json], claim: Json) -> tuple[str, list[int]]:
    """Return the UUID that a claim's file names, and the minors of the GPU files in it."""
    (file,) = (file for name, file in cdi.items() if claim["metadata"]["uid"] in name)
    edits = file["devices"][0]["containerEdits"]
    (uuid,) = (text.partition("=")[2] for text in edits["env"] if text.startswith("APPORTION_R0_UUID="))
    return uuid, [row["minor"] for row in edits["deviceNodes"] if row["path"] == f"/dev/nvidia{row['minor']}"]


def right(fake: FakeNvml, cdi: Mapping[str, Json], claim: Json) -> bool:
    """Say whether the one GPU file of a claim is that of the GPU whose UUID the claim's file names."""
    uuid, minors = numbers(cdi, claim)
    return minors == [fake.minor(uuid)]


async def test_a_claim_gets_the_file_of_its_gpu_after_the_minors_were_swapped(
    faked: MakeFake, namespace: str
) -> None:
    """A reload of the driver gives minors anew; the claim's UUID says whose file belongs into its container."""
    async with faked("H100-80GB", "H100-80GB") as (node, fake), killed_agent(node, "never") as agent:
        claim = await node.claim(namespace, "one", "gpu-0")
        await eventually(node.devices, bool)
        fake.rebind(0, 1)
        answer = await agent.insist(lambda: eventually(lambda: node.prepare(claim), bool))
        assert answer[claim["metadata"]["uid"]].error == ""
        assert right(fake, node.cdi(), claim), numbers(node.cdi(), claim)


async def test_a_gpu_that_is_made_whole_is_given_with_the_minor_that_it_has_then(
    faked: MakeFake, namespace: str
) -> None:
    """Switching MIG mode off binds the GPU anew, and it takes the lowest minor that is free."""
    async with faked("H100-80GB", "H100-80GB") as (node, fake):
        fake.set_mode(0, on=True)
        with fake.changing() as state:
            state.gpu[0].minor, state.gpu[1].minor = 2, 1
        async with killed_agent(node, "never") as agent:
            claim = await node.claim(namespace, "one", "gpu-0")
            answer = await agent.insist(lambda: eventually(lambda: node.prepare(claim), bool))
            assert answer[claim["metadata"]["uid"]].error == ""
            uuid, minors = numbers(node.cdi(), claim)
            assert fake.minor(uuid) == 0
            assert minors == [0]


@pytest.mark.parametrize("removed", [False, True], ids=["files stay", "files are removed"])
async def test_a_container_that_restarts_after_minors_changed_gets_its_own_gpu(
    faked: MakeFake, namespace: str, *, removed: bool
) -> None:
    """Kubelet does not ask for a prepared claim; its file follows what the GPU has now, whole or cut."""
    async with faked("H100-80GB", "H100-80GB") as (node, fake), killed_agent(node, "never") as agent:
        whole = await node.claim(namespace, "whole", "gpu-0")
        part = await node.claim(namespace, "part", MIG)
        await node.partition(MIG, "3g.40gb", holder=holder(part))
        for claim in (whole, part):
            answer = await agent.insist(lambda each=claim: eventually(lambda: node.prepare(each), bool))
            assert answer[claim["metadata"]["uid"]].error == ""
        before = node.cdi()
        assert right(fake, before, whole)
        fake.rebind(0, 1)
        if removed:
            for name in before:
                (node.folder / "cdi" / name).unlink()

        async def files() -> dict[str, Json]:
            return node.cdi() if len(list((node.folder / "cdi").glob("*.json"))) == 2 else {}

        found = await eventually(files, lambda cdi: len(cdi) == 2 and right(fake, cdi, whole))
        if not removed:
            found = await eventually(files, lambda cdi: bool(cdi) and numbers(cdi, part)[1] == [1])
        assert numbers(found, whole)[0] == numbers(before, whole)[0]


async def test_a_toolkit_that_comes_after_the_agent_serves_claims_of_whole_gpus(
    faked: MakeFake, namespace: str
) -> None:
    """The GPU operator installs it when it likes: claims after it have its hooks, and those before get them."""
    async with faked("H100-80GB", "H100-80GB") as (node, _):
        root = node.options.host_root
        async with killed_agent(node, "never") as agent:
            claims = [await node.claim(namespace, f"c{index}", f"gpu-{index}") for index in range(2)]
            answer = await agent.insist(lambda: eventually(lambda: node.prepare(claims[0]), bool))
            assert answer[claims[0]["metadata"]["uid"]].error == ""
            assert hooks(node) == {claims[0]["metadata"]["uid"]: []}
            host(root)
            await node.prepare(claims[1])
            wanted = ["create-symlinks", "update-ldcache"]
            uids = [claim["metadata"]["uid"] for claim in claims]
            assert hooks(node)[uids[1]] == wanted

            async def all_hooks() -> dict[str, list[str]]:
                return hooks(node)

            await eventually(all_hooks, lambda found: found == dict.fromkeys(uids, wanted))
            for file in node.cdi().values():
                mounts = {mount["containerPath"] for mount in file["containerEdits"]["mounts"]}
                assert f"/{UBUNTU}/libcuda.so.{VERSION}" in mounts


def hooks(node: SimulatedNode) -> dict[str, list[str]]:
    """Return what the hooks of each claim's file do, by claim UID."""
    return {
        name.partition("_")[2].removesuffix(".json"): [
            hook["args"][1] for hook in file["containerEdits"].get("hooks", ())
        ]
        for name, file in node.cdi().items()
    }
