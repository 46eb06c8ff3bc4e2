"""What keeps pods off nodes is found once for all nodes, as long as no pod comes or goes."""

from typing import Any

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import PODS
from apportion.scheduling.room.neighbours import Neighbours
from apportion.scheduling.room.obstacles import Obstacles
from tests.observedcluster import ObservedCluster, request
from tests.scheduling.queued import fleet
from tests.steps import Steps

WEB: dict[str, Any] = {"labels": {"app": "web"}}
SPREAD = {
    "topologyKey": "zone",
    "labelSelector": {"matchLabels": WEB["labels"]},
    "maxSkew": 1,
    "whenUnsatisfiable": "DoNotSchedule",
}


def web(world: ObservedCluster, name: str, node: str) -> None:
    pod = world.pod(name, spec={"nodeName": node})
    pod["metadata"] |= WEB
    world.see(PODS, pod)


async def test_pods_that_a_spread_counts_are_gone_through_once_for_all_nodes(unanswered: Client) -> None:
    """They were for each node: sixteen constraints that count a pod on each of 5,000 nodes took 30 ms for each node at which victims were looked for."""
    world = fleet({f"n{number}": ("h100", 1) for number in range(4)})
    for number in range(4):
        world.node(f"n{number}", cpu="64", zone=f"z{number % 2}")
        web(world, f"web{number}", f"n{number}")
    world.claim("c", request("gpu"))
    raw = world.pod("p", "c", gates=(GATE,), spec={"topologySpreadConstraints": [SPREAD]})
    pod = world.pod_value(raw)
    neighbours = world.cycle(unanswered).decider.candidates.neighbours
    obstacles = Obstacles((pod,), neighbours)
    with Steps(only=Neighbours._counted_by) as counted:
        counts = [obstacles.on(f"n{number}") for number in range(4)]
    assert counted.count == 1
    web(world, "another", "n1")
    assert obstacles.on("n1") != counts[1]
    assert obstacles.on("n1") == Obstacles((pod,), neighbours).on("n1")
    world.node("n1", cpu="64")
    assert obstacles.on("n1") == Obstacles((pod,), neighbours).on("n1")
