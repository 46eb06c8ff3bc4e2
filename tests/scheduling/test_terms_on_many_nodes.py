"""A pod may have as many terms as are evaluated, for as many labels of nodes as it likes: what they say of all nodes holds up nobody."""

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import PODS
from apportion.dra.excess import MOST_POD_TERMS
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.longeststep import longest_step, served_before
from tests.scheduling.queued import fleet

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOST = "kubernetes.io/hostname"
NODES = 40


def occupied(zones: int = NODES) -> ObservedCluster:
    """Return nodes with two devices each, in so many zones; all but the last one have a pod of nobody's interest."""
    world = fleet({f"n{number}": ("h100", 2) for number in range(NODES)})
    for number in range(NODES):
        world.node(f"n{number}", cpu="64", zone=f"z{number % zones}", **{HOST: f"n{number}"})
    for number in range(NODES - 1):
        metadata = {"name": f"p{number}", "namespace": "others"}
        world.see(PODS, {"metadata": metadata, "spec": {"nodeName": f"n{number}"}})
    return world


def terms(kind: str, key: str, number: int = MOST_POD_TERMS) -> Json:
    """Return so many terms, each of which means all pods without a label of its own."""
    rows = [
        {
            "topologyKey": key,
            "namespaceSelector": {},
            "labelSelector": {"matchExpressions": [{"key": f"k{row}", "operator": "DoesNotExist"}]},
        }
        for row in range(number)
    ]
    return {"affinity": {kind: {REQUIRED: rows}}}


@pytest.mark.parametrize(
    ("kind", "key", "places"),
    [
        ("podAffinity", HOST, {f"n{number}" for number in range(NODES - 1)}),
        ("podAffinity", "zone", {f"n{number}" for number in range(NODES)}),
        ("podAntiAffinity", HOST, {f"n{NODES - 1}"}),
        ("podAntiAffinity", "zone", {None}),
    ],
)
async def test_terms_about_one_label_are_no_look_at_all_nodes_each(
    unanswered: Client, kind: str, key: str, places: set[str | None]
) -> None:
    """Company is looked for by each label once, and no node is looked at any more where none is left."""
    world = occupied(zones=4)
    cycle = served_before(world, unanswered)
    world.wait_for("c", request("gpu"), terms(kind, key))
    assert longest_step(cycle) < 5 * MOST_POD_TERMS * NODES
    assert world.places().get("c") in places
