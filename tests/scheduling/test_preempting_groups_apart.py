"""Pods go for a group whose pods must not share a node only where each of them has a node of its own then."""

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import PODS
from tests.observedcluster import Json
from tests.scheduling.evicting import Trial, ends, holds, joins, trial
from tests.scheduling.test_neighbours import relation
from tests.scheduling.test_neighbours_in_groups import APART, PORT


def full(client: Client, spec: Json, gpus: int, *nodes: str) -> Trial:
    """Return nodes whose GPUs pods of priority 0 have, and a group of two with this spec; of the later nodes the pods have run for longer."""
    made = trial(client, gpus, nodes=len(nodes))
    for age, node in enumerate(nodes):
        made.world.node(node, cpu="64", **{"kubernetes.io/hostname": node})
        for gpu in range(gpus):
            holds(made.world, f"low-{node}-{gpu}", gpu, node=node, age=3600.0 * (age + 1))
    joins(made.world, "a", "b")
    for raw in [made.world.seen[PODS, "team", name] for name in ("a", "b")]:
        raw["metadata"]["labels"]["app"] = "web"
        raw["spec"] |= spec
        made.world.see(PODS, raw)
    return made


@APART
async def test_each_member_has_a_node_of_its_own_once_they_are_gone(unanswered: Client, spec: Json) -> None:
    """The two of one node have the shortest time on their devices, and the group could not start there."""
    made = full(unanswered, spec, 2, "n1", "n2")
    await made.passes()
    assert sorted(name.rsplit("-", 1)[0] for name in made.evicted) == ["low-n1", "low-n2"]
    ends(made.world, *made.evicted)
    await made.passes()
    assert {made.world.places()[name] for name in ("a", "b")} == {"n1", "n2"}


@pytest.mark.parametrize("spec", [relation("podAntiAffinity"), {"containers": [PORT]}])
async def test_nobody_goes_where_one_node_would_have_all_devices(unanswered: Client, spec: Json) -> None:
    """They would go in vain."""
    made = full(unanswered, spec, 2, "n1")
    await made.passes(20)
    assert made.evicted == []
