"""A pod may have as many terms as are evaluated, for as many labels of nodes as it likes: what they say of all nodes holds up nobody."""

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import NODES as NODE_KIND
from apportion.cluster.kinds import PODS
from apportion.dra.excess import MOST_POD_TERMS, MOST_REQUIREMENTS, MOST_TOLERATIONS
from apportion.dra.selection import Term
from apportion.dra.taint import Toleration
from apportion.scheduling.room.neighbours import Neighbours
from apportion.scheduling.room.placedpods import PlacedPods
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


def tolerant(**spread: str) -> Json:
    """Return a pod that tolerates as much as is evaluated, what its nodes have at last, and is spread over them."""
    keys = [*(f"k{row}" for row in range(MOST_TOLERATIONS - 1)), "team"]
    constraint = {
        "topologyKey": HOST,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {},
    }
    return {
        "tolerations": [{"key": key, "operator": "Exists"} for key in keys],
        "topologySpreadConstraints": [constraint | spread],
    }


async def test_tolerations_are_compared_with_equal_taints_once(unanswered: Client) -> None:
    """For the nodes that a pod fits, and for those that its spread counts."""
    world = occupied()
    cycle = served_before(world, unanswered)
    for number in range(NODES):
        node = world.node(f"n{number}", cpu="64", **{HOST: f"n{number}"})
        world.see(NODE_KIND, node | {"spec": {"taints": [{"key": "team", "effect": "NoSchedule"}]}})
    world.wait_for("c", request("gpu"), tolerant(nodeTaintsPolicy="Honor"))
    assert longest_step(cycle, only=Toleration.tolerates) < 4 * MOST_TOLERATIONS
    assert "c" in world.places()


async def test_which_nodes_a_spread_counts_is_found_in_steps(unanswered: Client) -> None:
    """The pod's node affinity leaves out the others."""
    world = occupied()
    cycle = served_before(world, unanswered)
    rows = [
        {"matchExpressions": [{"key": "x", "operator": "In", "values": [f"v{row}"]}]} for row in range(255)
    ]
    rows.append({"matchExpressions": [{"key": HOST, "operator": "Exists"}]})
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": rows}}}
    world.wait_for("c", request("gpu"), tolerant() | {"affinity": affinity})
    assert longest_step(cycle, only=Term.matches) < 10 * MOST_REQUIREMENTS
    assert "c" in world.places()


async def test_pods_that_might_be_preempted_are_asked_once_whether_they_go(unanswered: Client) -> None:
    """However many terms of the one that waits mean them."""
    world = occupied()
    for number in range(NODES - 1):
        spec = {
            "nodeName": f"n{number}",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "60"}}}],
        }
        world.see(PODS, {"metadata": {"name": f"p{number}", "namespace": "others"}, "spec": spec})
    world.node(f"n{NODES - 1}", cpu="1")
    cycle = served_before(world, unanswered)
    requests = [{"name": "c", "resources": {"requests": {"cpu": "8"}}}]
    asks = {"priority": 10, "containers": requests, **terms("podAntiAffinity", HOST)}
    world.wait_for("c", request("gpu"), asks)
    assert longest_step(cycle, only=PlacedPods.all_go) <= 2 * NODES
    assert "c" in world.places()


async def test_pods_that_are_spread_are_not_compared_with_all_nodes_to_see_whether_they_are_alike(
    unanswered: Client,
) -> None:
    """Of as many as are planned together."""
    world = occupied()
    cycle = served_before(world, unanswered)
    for number in range(20):
        world.wait_for(f"c{number}", request("gpu"), tolerant())
    assert longest_step(cycle, only=Neighbours._spread) <= 2
    assert {f"c{number}" for number in range(20)} <= world.places().keys()
