"""GPUs that serve several claims through a control daemon of MPS: what each claim's containers may use, and who shares with whom."""

from testbed.eventually import eventually
from tests.agent.places import H100
from tests.agent.shares.sharednode import MOST, entry, environment, policy, shared, sharing
from tests.agent.simulatednode import MakeNode

POLICIES = "/apis/apportion.dev/v1alpha1/allocationpolicies"


async def test_claims_on_one_gpu_have_limits_of_their_own_and_one_daemon(
    make_node: MakeNode, namespace: str
) -> None:
    """Cores are published in percent; memory and cores that a claim was allocated stand in its containers' environment."""
    async with make_node(cards=[H100]) as node, sharing(node, strategy="MPS"), node.agent():
        device = await shared(node)
        assert device["attributes"]["sharing"] == {"string": "MPS"}
        cores = device["capacity"]["cores"]
        assert (cores["value"], cores["requestPolicy"]["default"]) == ("100", str(100 // MOST))
        ten = await node.share(namespace, "ten", "gpu-0", "10Gi", cores=30)
        twenty = await node.share(namespace, "twenty", "gpu-0", "20Gi", cores=70)
        assert [await node.prepared(claim) for claim in (ten, twenty)] == ["", ""]
        seen = [environment(node, claim) for claim in (ten, twenty)]
        assert [each["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] for each in seen] == ["0=10240M", "0=20480M"]
        assert [each["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] for each in seen] == ["30", "70"]
        assert len({each["CUDA_MPS_PIPE_DIRECTORY"] for each in seen}) == 1
        folder = node.folder / "state" / "mps"
        assert len(list(folder.iterdir())) == 1
        assert await node.unprepared(ten) == ""
        assert len(list(folder.iterdir())) == 1
        assert await node.unprepared(twenty) == ""
        assert list(folder.iterdir()) == []


async def test_shares_that_take_turns_and_those_of_a_daemon_are_never_on_one_gpu(
    make_node: MakeNode, namespace: str
) -> None:
    """The GPU stays published as its claims use it, and a claim that was allocated otherwise waits for them."""
    async with make_node(cards=[H100]) as node, sharing(node) as path, node.agent():
        await shared(node)
        turns = await node.share(namespace, "turns", "gpu-0", "10Gi")
        assert await node.prepared(turns) == ""
        await node.api.delete(path)
        await node.api.create(POLICIES, policy(f"{node.name}-mps", entry(node, strategy="MPS")))
        try:
            late = await node.share(namespace, "late", "gpu-0", "10Gi", cores=50)
            assert "held by ResourceClaim" in await node.prepared(late)
            assert (await shared(node))["attributes"]["sharing"] == {"string": "TimeSlicing"}
            await node.unprepare(turns)
            await eventually(
                node.devices, lambda found: found["gpu-0"]["attributes"].get("sharing") == {"string": "MPS"}
            )
            assert await node.prepared(late) == ""
            await node.unprepare(late)
        finally:
            await node.api.delete(f"{POLICIES}/{node.name}-mps")


async def test_shares_of_two_daemons_in_one_claim_are_refused(make_node: MakeNode, namespace: str) -> None:
    """A program finds one daemon: the reason says what to do instead, and nothing is set up."""
    async with make_node(cards=[H100 | {"count": 2}]) as node, sharing(node, strategy="MPS"), node.agent():
        await shared(node)
        both = await node.share(namespace, "both", ("gpu-0", "gpu-1"), "10Gi", cores=50)
        assert "gpu-0 and gpu-1 are shared through a control daemon each" in await node.prepared(both)
        assert not list((node.folder / "state" / "mps").glob("*"))
