"""Claims that have lost their shares of one GPU while their containers run on: each is named, however many they are."""

import asyncio

from apportion.api.contract import HELD
from testbed.eventually import eventually
from tests.agent.places import H100
from tests.agent.shares.sharednode import shared, sharing
from tests.agent.simulatednode import MakeNode


async def test_each_of_many_claims_that_have_lost_their_shares_is_named(
    make_node: MakeNode, namespace: str
) -> None:
    """For four of them a device has a taint; the slice names the others."""
    async with make_node(cards=[H100]) as node, sharing(node, mostClaims=8), node.agent():
        await shared(node)
        claims = [await node.share(namespace, f"c{number}", "gpu-0", "5Gi") for number in range(6)]
        assert await asyncio.gather(*map(node.prepared, claims)) == [""] * 6
        for claim in claims:
            await node.deallocate(claim)

        async def named() -> list[str]:
            (found,) = [
                each
                for each in await node.slices()
                if any(row["name"] == "gpu-0" for row in each["spec"].get("devices") or ())
            ]
            (device,) = [row for row in found["spec"]["devices"] if row["name"] == "gpu-0"]
            tainted = [taint["value"] for taint in device["taints"] if taint["key"] == HELD]
            noted = (found["metadata"].get("annotations") or {}).get(HELD, "").split()
            return sorted(tainted + [entry.removeprefix("gpu-0/") for entry in noted])

        await eventually(named, lambda found: found == sorted(claim["metadata"]["uid"] for claim in claims))
        for claim in claims[:-1]:
            await node.unprepare(claim)
        await eventually(named, lambda found: found == [claims[-1]["metadata"]["uid"]])
