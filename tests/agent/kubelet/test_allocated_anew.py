"""A claim that is allocated anew, to the same devices in another way: it is prepared as the allocation says now, or unprepared first."""

from testbed.api import Json
from tests.agent.places import H100
from tests.agent.simulatednode import MakeNode, SimulatedNode

CUT = [{"card": "gpu-1", "profile": "1g.10gb", "start": 0}]
"""A partition that somebody made keeps gpu-1 from being prepared whole."""


def uncut(node: SimulatedNode) -> None:
    """Remove all partitions, as a person does."""
    with node.switchboard() as state:
        state["partitions"].clear()


async def requests(node: SimulatedNode, claim: Json) -> dict[str, list[str]]:
    """Prepare a claim, and return the requests that kubelet gets each device for."""
    answer = (await node.prepare(claim))[claim["metadata"]["uid"]]
    assert answer.error == ""
    return {row.device_name: list(row.request_names) for row in answer.devices}


async def test_each_request_gets_the_device_that_the_allocation_says_now(
    make_node: MakeNode, namespace: str
) -> None:
    """The first pod was deleted by force while its prepare failed; kubelet has the claim from it, and asks for the next pod."""
    async with make_node(cards=[H100 | {"count": 2}], foreign=CUT) as node, node.agent(held_interval=10.0):
        claim = await node.claim(namespace, "pair", "gpu-0", "gpu-1")
        assert "still cut" in await node.prepared(claim)
        uncut(node)
        await node.deallocate(claim)
        await node.allocate(claim, "gpu-1", "gpu-0")
        assert await requests(node, claim) == {"gpu-1": ["r0"], "gpu-0": ["r1"]}


async def test_a_claim_has_the_access_that_the_allocation_says_now(
    make_node: MakeNode, namespace: str
) -> None:
    """Who looks at a card with admin access waits for nothing on it, and keeps nobody off."""
    async with make_node(cards=[H100 | {"count": 2}], foreign=CUT) as node, node.agent(held_interval=10.0):
        claim = await node.claim(namespace, "watches", "gpu-1")
        assert "still cut" in await node.prepared(claim)
        await node.deallocate(claim)
        labels = {"resource.kubernetes.io/admin-access": "true"}
        await node.api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": labels}})
        await node.allocate(claim, "gpu-1", adminAccess=True)
        assert await node.prepared(claim) == ""
        uncut(node)
        other = await node.claim(namespace, "other", "gpu-1")
        assert await node.prepared(other) == ""


async def test_a_prepared_claim_is_unprepared_before_its_requests_exchange_devices(
    make_node: MakeNode, namespace: str
) -> None:
    """Containers of the former pod may run with what they were given."""
    async with make_node(cards=[H100 | {"count": 2}]) as node, node.agent(held_interval=10.0):
        claim = await node.claim(namespace, "pair", "gpu-0", "gpu-1")
        assert await node.prepared(claim) == ""
        await node.deallocate(claim)
        await node.allocate(claim, "gpu-1", "gpu-0")
        assert "for other requests; it is unprepared first" in await node.prepared(claim)
        assert await node.unprepared(claim) == ""
        assert await requests(node, claim) == {"gpu-1": ["r0"], "gpu-0": ["r1"]}
