"""What is reserved on nodes that suit its pod no more, by what happens elsewhere, is let go within half a minute."""

from apportion.cluster.client import Client
from apportion.cluster.kinds import PODS
from apportion.scheduling.backfill.reservations import REPLANNED
from tests.scheduling.reserving import DEVICES, Reserving, on

ZONE = "topology.kubernetes.io/zone"


async def test_a_pod_in_its_zone_keeps_it_off(unanswered: Client) -> None:
    """It waited on for the devices of a node that it could not use, and what became free elsewhere went to others."""
    nodes = {"n1": DEVICES, "n2": DEVICES, "n3": 1, "n4": 1}
    made = Reserving(unanswered, nodes, mostReserved=1)
    for name, zone in zip(nodes, "abab", strict=True):
        made.world.node(name, cpu="64", **{ZONE: zone})
    for node in ("n1", "n2"):
        for number in range(2):
            made.starts(f"{node}-{number}", DEVICES // 2, spec={"affinity": on(node)})
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "loud"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    made.comes("large", DEVICES, spec={"affinity": apart})
    assert made.passes() == []
    [([node], _)] = made.reserved.values()
    loud = {"name": "loud", "namespace": "team", "labels": {"app": "loud"}}
    beside = {"n1": "n3", "n2": "n4"}[node]
    made.world.see(PODS, {"metadata": loud, "spec": {"nodeName": beside}, "status": {"phase": "Running"}})
    for _ in range(3):
        made.passes(REPLANNED)
    assert made.reserved["large"][0] == [*{"n1", "n2"}.difference({node})]
