"""What a prepare call waits for: kubelet asks again for a pod that was refused after a minute or more."""

import asyncio
import time

from tests.agent.places import H100
from tests.agent.simulatednode import MakeNode, holder

PLACES = ("gpu-0-mig-1g10gb-19-0", "gpu-0-mig-1g10gb-19-1")


async def test_a_whole_card_is_waited_for_while_idle_partitions_leave_it(
    make_node: MakeNode, namespace: str
) -> None:
    """The operator deletes them when it has allocated the card, and the pod comes meanwhile."""
    async with make_node(cards=[H100]) as node, node.agent():
        for place in PLACES:
            await node.partition(place, "1g.10gb", origin="Warm")
        for place in PLACES:
            await node.phase(place, "Idle")
        claim = await node.claim(namespace, "whole", "gpu-0")
        asked = asyncio.create_task(node.prepared(claim))
        for place in PLACES:
            await asyncio.sleep(0.5)
            await node.remove(place)
        assert await asked == ""
        assert node.hardware() == []


async def test_a_whole_card_is_refused_at_once_for_partitions_that_stay(
    make_node: MakeNode, namespace: str
) -> None:
    """Nobody knows when a layout's go, or those that a person made."""
    foreign = {"card": "gpu-1", "profile": "1g.10gb", "start": 6}
    layout = {"kind": "PartitionLayout", "name": "nightly", "uid": "layout-uid"}
    made = f"{PLACES[0]}-static"
    async with (
        make_node(cards=[H100 | {"count": 2}], foreign=[foreign]) as node,
        node.agent(prepare_timeout=30),
    ):
        await node.partition(made, "1g.10gb", holder=layout, origin="Layout")
        await node.phase(made, "Ready")
        began = time.monotonic()
        for number in range(2):
            whole = await node.claim(namespace, f"whole-{number}", f"gpu-{number}")
            assert "is still cut into 1g.10gb" in await node.prepared(whole)
        assert time.monotonic() - began < 10


async def test_all_devices_of_a_claim_have_one_deadline(make_node: MakeNode, namespace: str) -> None:
    """Kubelet gives up after 45 seconds, and its Event says nothing then of what the pod waits for."""
    async with make_node(cards=[H100]) as node, node.agent(prepare_timeout=4):
        claim = await node.claim(namespace, "two", *PLACES)
        began = time.monotonic()
        asked = asyncio.create_task(node.prepared(claim))
        await asyncio.sleep(3)
        await node.partition(PLACES[0], "1g.10gb", holder=holder(claim))
        assert PLACES[1] in await asked
        assert time.monotonic() - began < 6.5
