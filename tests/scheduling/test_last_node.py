"""A pod that one node alone suits gets there, whichever nodes would be chosen before it."""

import asyncio

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS
from apportion.scheduling.candidates.exclusions import ZONE
from tests.observedcluster import request
from tests.scheduling.queued import fleet

NODES = 6


async def test_a_pod_whose_last_node_alone_suits_starts_within_an_hour(unanswered: Client) -> None:
    """kube-scheduler takes the allocation back wherever it is but on the node that scores least, which has more cpu to strand."""
    world = fleet({f"n{number}": ("h100", 1) for number in range(NODES)})
    for number in range(NODES):
        world.node(f"n{number}", cpu=str(8 + 8 * number), **{ZONE: "a"})
    world.policy(queue={"mostReserved": 0})
    cycle = world.cycle(unanswered)
    raw, tried = world.claim("c", request("gpu")), list[str]()
    world.pod("p", "c", gates=(GATE,))
    cycle.once()
    good = f"n{NODES - 1}"
    assert world.places()["c"] != good
    while world.clock.now < 3600 and good not in tried:
        cycle.once()
        await asyncio.sleep(0)
        node = world.places().get("c")
        if node is None:
            world.clock.now += 1
            continue
        tried.append(node)
        world.pod("p", "c")
        raw = world.allocate(raw, node, "gpu-0")
        world.clock.now += 2
        if node != good:
            raw.pop("status")
            raw["metadata"]["managedFields"] = []
            world.see(CLAIMS, raw)
    assert good in tried, f"{len(tried)} tries in {world.clock.now:.0f} s, of {sorted({*tried})}"
