"""Pods are evicted where they keep a demand off a node by a host port, by required anti-affinity or by hard spread."""

from typing import Any

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import PODS
from tests.observedcluster import Json, ObservedCluster
from tests.scheduling.evicting import Trial, ends, holds, joins, trial, waits

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
WEB: Json = {"matchLabels": {"app": "web"}}
PORT: Json = {"containers": [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}]}]}
LABELS: Json = {"labels": {"app": "web"}}


def term(kind: str, key: str = HOST) -> Json:
    own = {"topologyKey": key, "labelSelector": WEB}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [own]}}}


def spread(key: str = HOST) -> Json:
    own = {"topologyKey": key, "labelSelector": WEB, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [own]}


def made(client: Client, gpus: int = 2, nodes: int = 1) -> Trial:
    """Return nodes of one zone, and another one without devices."""
    found = trial(client, gpus, nodes=nodes)
    for name in ("bare", *(f"n{number + 1}" for number in range(nodes))):
        found.world.node(name, cpu="64", **{HOST: name, ZONE: "a"})
    return found


def labelled(world: ObservedCluster, name: str, spec: Json, priority: int = 0, node: str = "") -> None:
    """Give a pod of the test its label, and let it have this spec."""
    known = next(each for each in world.snapshot.pods.values() if each.name == name)
    raw: Json = {"metadata": {"name": name, "namespace": "team", "uid": known.uid, **LABELS}}
    own: dict[str, Any] = {"priority": priority, "nodeName": node, **spec}
    own["schedulingGates"] = [{"name": gate} for gate in known.gates]
    own["resourceClaims"] = [{"name": each.name, "resourceClaimName": each.claim} for each in known.claims]
    world.see(PODS, raw | {"spec": own})


@pytest.mark.parametrize(
    ("there", "asked"),
    [
        (PORT, PORT),
        ({}, term("podAntiAffinity")),
        (term("podAntiAffinity"), {}),
        ({}, term("podAntiAffinity", ZONE)),
        ({}, spread()),
    ],
    ids=["host port", "shunned", "shunning", "zone", "spread"],
)
async def test_the_pod_that_keeps_a_demand_off_its_node_goes(
    there: Json, asked: Json, unanswered: Client
) -> None:
    """Another pod would be cheaper, and its device does not help; a pod of no lower priority stays, and nobody goes in vain."""
    for priority, gone in ((1, ["obstacle"]), (5, [])):
        found = made(unanswered)
        holds(found.world, "obstacle", 0, priority=priority, metadata=LABELS, **there)
        holds(found.world, "cheap", 1)
        waits(found.world, "high", 1, priority=5, **asked)
        labelled(found.world, "high", asked, 5)
        await found.passes(3)
        assert found.evicted == gone
        if gone:
            assert "high" not in found.world.places()
            ends(found.world, *gone)
            await found.passes()
            assert found.world.places()["high"] == "n1"


@pytest.mark.parametrize("priority", [1, 5])
async def test_devices_and_the_port_are_got_together(priority: int, unanswered: Client) -> None:
    """Both pods go for them; where the one with the port stays, neither."""
    found = made(unanswered)
    holds(found.world, "obstacle", 0, priority=priority, **PORT)
    holds(found.world, "other", 1)
    waits(found.world, "high", 2 if priority == 1 else 1, priority=5, **PORT)
    await found.passes(3)
    assert sorted(found.evicted) == (["obstacle", "other"] if priority == 1 else [])


async def test_nobody_goes_where_a_pod_without_devices_of_the_same_priority_has_the_port(
    unanswered: Client,
) -> None:
    """It is no victim."""
    found = made(unanswered)
    found.world.pod("daemon", spec={"nodeName": "n1", "priority": 5, **PORT})
    holds(found.world, "low", 0)
    holds(found.world, "low-2", 1, **PORT)
    waits(found.world, "high", 1, priority=5, **PORT)
    await found.passes(3)
    assert found.evicted == []


async def test_no_company_goes_of_the_one_that_needs_it(unanswered: Client) -> None:
    """The demand would be refused the node once it is gone."""
    found = made(unanswered, 1)
    holds(found.world, "company", 0, metadata=LABELS)
    waits(found.world, "high", 1, priority=5, **term("podAffinity"))
    await found.passes(3)
    assert found.evicted == []


async def test_a_pod_of_the_zone_on_another_node_keeps_the_node_shut(unanswered: Client) -> None:
    """Pods of one node go for a demand; those that it shuns in the zone stay on the other one."""
    found = made(unanswered, 1, nodes=2)
    holds(found.world, "one", 0, metadata=LABELS, priority=1)
    holds(found.world, "two", 0, metadata=LABELS, priority=1, node="n2")
    waits(found.world, "high", 1, priority=5, **term("podAntiAffinity", ZONE))
    await found.passes(3)
    assert found.evicted == []


async def test_what_keeps_members_of_a_group_off_their_nodes_goes(unanswered: Client) -> None:
    """Each of them takes the port of its node; a device is free there."""
    found = made(unanswered, 2, nodes=2)
    for number in (1, 2):
        holds(found.world, f"obstacle-{number}", 0, node=f"n{number}", **PORT)
    joins(found.world, "a", "b")
    for pod in [each for each in found.world.snapshot.pods.values() if each.name in {"a", "b"}]:
        raw = dict(found.world.seen[PODS, "team", pod.name])
        raw["spec"] = raw["spec"] | PORT
        found.world.see(PODS, raw)
    await found.passes(3)
    assert sorted(found.evicted) == ["obstacle-1", "obstacle-2"]
    ends(found.world, "obstacle-1", "obstacle-2")
    await found.passes(3)
    assert sorted(str(node) for node in found.world.places().values()) == ["n1", "n2"]
