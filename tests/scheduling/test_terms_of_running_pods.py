"""A pod on a node may have thousands of terms of anti-affinity, as nobody bounds those of pods without claims: they hold up no decision."""

from apportion.cluster.client import Client
from apportion.cluster.kinds import PODS
from apportion.dra.podrelations import PodSelection
from apportion.scheduling.pace import AT_ONCE
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.longeststep import longest_step, served_before
from tests.scheduling.queued import fleet

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERMS = 2000


def averse(*keys: str) -> Json:
    """Return a pod on the first node with so many terms, each of which means everybody, in turn for each of these labels of nodes."""
    terms = [
        {
            "topologyKey": keys[row % len(keys)],
            "namespaceSelector": {},
            "labelSelector": {"matchExpressions": [{"key": "k", "operator": "NotIn", "values": [str(row)]}]},
        }
        for row in range(TERMS)
    ]
    spec = {"nodeName": "n0", "containers": [], "affinity": {"podAntiAffinity": {REQUIRED: terms}}}
    return {"metadata": {"name": "averse", "namespace": "others"}, "spec": spec}


def zones() -> ObservedCluster:
    """Return forty nodes in two zones, with two devices each."""
    world = fleet({f"n{number}": ("h100", 2) for number in range(40)})
    for number in range(40):
        world.node(f"n{number}", cpu="64", zone=f"z{number % 2}")
    return world


async def test_terms_of_a_pod_that_runs_are_compared_in_steps_and_once(unanswered: Client) -> None:
    """With pods of equal labels; the nodes of its zone are found once for all of them."""
    world = zones()
    cycle = served_before(world, unanswered)
    world.see(PODS, averse("zone"))
    world.wait_for("first", request("gpu"))
    assert longest_step(cycle, only=PodSelection.matches) < 3 * AT_ONCE
    world.wait_for("second", request("gpu"))
    assert longest_step(cycle) < 3 * TERMS // 2
    assert {world.places()[name] for name in ("first", "second")} <= {
        f"n{number}" for number in (1, 3, 5, 7, 9)
    }


async def test_labels_that_no_node_has_cost_no_look_at_the_nodes(unanswered: Client) -> None:
    """Two thousand labels."""
    world = zones()
    cycle = served_before(world, unanswered)
    world.see(PODS, averse(*(f"no-{row}" for row in range(TERMS))))
    world.wait_for("first", request("gpu"))
    longest = longest_step(cycle)
    world.node("n0", cpu="63", zone="z0")
    world.wait_for("second", request("gpu"))
    assert max(longest, longest_step(cycle)) < 50 * TERMS
    assert {"first", "second"} <= world.places().keys()
