"""Pods whose answer depends on many nodes, planned together: no step of a pass looks at all nodes for each of them."""

from collections.abc import Callable

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import PODS
from apportion.dra.selection import Term
from apportion.scheduling.room.nodeaffinity import MOST_KEPT
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.longeststep import longest_step, served_before
from tests.scheduling.queued import fleet
from tests.steps import Steps

pytestmark = pytest.mark.slow

NODES = 1800
PODS_PLANNED = 64
MOST_CALLS = 1800 * PODS_PLANNED
"""In one step: what is done for each pod, with less than one call for each node."""


def _spread(_: int) -> Json:
    constraint = {
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }  # fmt: skip
    return {"topologySpreadConstraints": [constraint]}


def _of_their_own(number: int) -> Json:
    return {"containers": [{"name": "main", "resources": {"requests": {"cpu": f"{1000 + number}m"}}}]}


@pytest.mark.parametrize("spec_of", [_spread, _of_their_own])
async def test_no_step_looks_at_every_node_for_every_pod(
    unanswered: Client, spec_of: Callable[[int], Json]
) -> None:
    """Pods of a Deployment that are spread over zones held everybody for seconds in a cluster of 5,000 nodes."""
    world = _world()
    cycle = served_before(world, unanswered)
    for number in range(PODS_PLANNED):
        name = f"p{number}"
        world.claim(name, request("gpu"))
        spec: Json = {
            "schedulingGates": [{"name": GATE}],
            "resourceClaims": [{"name": name, "resourceClaimName": name}],
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
            **spec_of(number),
        }
        world.see(
            PODS, {"metadata": {"name": name, "namespace": "team", "labels": {"app": "a"}}, "spec": spec}
        )
    assert longest_step(cycle) < MOST_CALLS
    assert len(world.places()) == 1 + PODS_PLANNED


def _world() -> ObservedCluster:
    world = fleet({f"n{number}": ("h100", 2) for number in range(NODES)})
    for number in range(NODES):
        world.node(f"n{number}", cpu="64", zone=f"z{number % 10}")
    return world


async def test_no_step_compares_more_than_some_terms_with_nodes(unanswered: Client) -> None:
    """Of more pods than it is kept for what their node affinity allows: a thousand nodes at once, a quarter of a second for terms as many as are evaluated. And all nodes anew in each pass."""
    nodes, terms = 40, 50
    world = fleet({f"n{number}": ("h100", 2) for number in range(nodes)})
    world.policy(queue={"mostReserved": 0})
    cycle = served_before(world, unanswered)
    for number in range(MOST_KEPT + 8):
        rows = [
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": [f"{number}-{term}"]}]}
            for term in range(terms)
        ]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": rows}}
        world.claim(f"p{number}", request("gpu"))
        spec: Json = {"affinity": {"nodeAffinity": required}}
        world.pod(f"p{number}", f"p{number}", gates=(GATE,), spec=spec)
    assert longest_step(cycle, Term.matches) < 2 * nodes * terms
    world.node("n0", cpu="63")
    with Steps(Term.matches) as compared:
        cycle.once()
    assert 0 < compared.count <= 2 * terms * (MOST_KEPT + 8)
