"""Pods go beside those that they ask for, and not beside those that they shun."""

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import PODS
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.queued import fleet
from tests.steps import steps

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
APP = {"matchLabels": {"app": "web"}}


def zones(**nodes: str) -> ObservedCluster:
    """Return nodes with a device each, in these zones."""
    world = fleet(dict.fromkeys(nodes, ("h100", 1)))
    for name, zone in nodes.items():
        world.node(name, cpu="64", **{ZONE: zone, HOST: name})
    return world


def neighbour(
    world: ObservedCluster, name: str, node: str = "", namespace: str = "team", **spec: Json
) -> Json:
    """Show a pod of `app: web` that is bound to a node, or to none."""
    metadata = {"name": name, "namespace": namespace, "labels": {"app": "web"}}
    return world.see(PODS, {"metadata": metadata, "spec": {"nodeName": node, **spec}})


def place(world: ObservedCluster, client: Client, spec: Json, labels: Json | None = None) -> str | None:
    """Return the node that one pass chooses for a pod."""
    world.claim("c", request("gpu"))
    pod = world.pod("c", "c", spec=spec)
    pod["metadata"]["labels"] = labels or {}
    world.see(PODS, pod)
    world.cycle(client).once()
    return world.places().get("c")


def relation(kind: str, key: str = HOST, **term: object) -> Json:
    own = {"topologyKey": key, "labelSelector": APP, **term}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [own]}}}


async def test_a_pod_shuns_the_nodes_of_those_that_it_must_not_be_beside(unanswered: Client) -> None:
    """By host or by zone; in its own namespace, if it says no other."""
    for key, free in ((HOST, "n2"), (ZONE, "n3")):
        world = zones(n1="a", n2="a", n3="b")
        neighbour(world, "web", "n1")
        if key == HOST:
            neighbour(world, "other", "n3")
        assert place(world, unanswered, relation("podAntiAffinity", key)) == free
    world = zones(n1="a")
    neighbour(world, "web", "n1", namespace="others")
    assert place(world, unanswered, relation("podAntiAffinity")) == "n1"


@pytest.mark.parametrize(("namespaces", "found"), [({}, None), ({"namespaces": ["others"]}, None)])
async def test_a_term_may_mean_pods_of_other_namespaces(
    unanswered: Client, namespaces: Json, found: str | None
) -> None:
    """An empty namespaceSelector means all."""
    world = zones(n1="a")
    neighbour(world, "web", "n1", namespace="others")
    term = namespaces or {"namespaceSelector": {}}
    assert place(world, unanswered, relation("podAntiAffinity", **term)) == found


async def test_a_pod_is_kept_off_by_those_that_shun_it(unanswered: Client) -> None:
    """Anti-affinity counts in both directions, until the other pod ends."""
    world = zones(n1="a")
    other = neighbour(world, "alone", "n1", **relation("podAntiAffinity"))
    assert place(world, unanswered, {}, {"app": "web"}) is None
    other["status"] = {"phase": "Succeeded"}
    world.see(PODS, other)
    assert place(world, unanswered, {}, {"app": "web"}) == "n1"


async def test_two_pods_that_shun_each_other_are_not_sent_to_one_node(unanswered: Client) -> None:
    """Also in one pass, when neither is bound."""
    world = fleet({"n1": ("h100", 2), "n2": ("h100", 2)})
    for name in ("n1", "n2"):
        world.node(name, cpu="64", **{HOST: name})
    for number in range(3):
        world.claim(f"c{number}", request("gpu"))
        pod = world.pod(f"c{number}", f"c{number}", spec=relation("podAntiAffinity"))
        pod["metadata"]["labels"] = {"app": "web"}
        world.see(PODS, pod)
    world.cycle(unanswered).once()
    assert sorted(str(node) for node in world.places().values()) == ["n1", "n2"]


async def test_a_pod_goes_where_its_company_is(unanswered: Client) -> None:
    """In the same zone; nowhere, if there is none."""
    world = zones(n1="a", n2="b", n3="b")
    assert place(world, unanswered, relation("podAffinity", ZONE)) is None
    neighbour(world, "web", "n3")
    assert place(world, unanswered, relation("podAffinity", ZONE)) in {"n2", "n3"}


async def test_the_first_of_its_kind_needs_no_company(unanswered: Client) -> None:
    """Else none of a group that wants to be together could start; the node needs the label, though."""
    world = zones(n1="a")
    assert place(world, unanswered, relation("podAffinity", "rack"), {"app": "web"}) is None
    world = zones(n1="a")
    assert place(world, unanswered, relation("podAffinity", ZONE), {"app": "web"}) == "n1"


@pytest.mark.parametrize(("skew", "node"), [(1, "n3"), (2, None)])
async def test_hard_spread_is_kept(unanswered: Client, skew: int, node: str | None) -> None:
    """Zone a has two, zone b one: one more only in b; with a larger skew anywhere."""
    world = zones(n1="a", n2="a", n3="b")
    for name, where in (("w1", "n1"), ("w2", "n2"), ("w3", "n3")):
        neighbour(world, name, where)
    constraint = {
        "topologyKey": ZONE,
        "maxSkew": skew,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": APP,
    }
    found = place(world, unanswered, {"topologySpreadConstraints": [constraint]}, {"app": "web"})
    assert found == node if node else found is not None


async def test_a_node_has_each_host_port_once(unanswered: Client) -> None:
    """Unless protocol or address differ."""

    def ports(**port: object) -> Json:
        return {"containers": [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80, **port}]}]}

    for taken, asked, free in (
        ({}, {}, False),
        ({"hostIP": "10.0.0.1"}, {}, False),
        ({"hostIP": "10.0.0.1"}, {"hostIP": "10.0.0.2"}, True),
        ({}, {"protocol": "UDP"}, True),
    ):
        world = zones(n1="a")
        neighbour(world, "web", "n1", **ports(**taken))
        assert (place(world, unanswered, ports(**asked)) == "n1") == free


async def test_pods_are_counted_once_and_then_as_they_change(unanswered: Client) -> None:
    """However many there are."""
    counts = []
    for pods in (5, 50):
        world = zones(n1="a", n2="b")
        for number in range(pods):
            neighbour(world, f"web-{number}", "n2")
        cycle = world.cycle(unanswered)
        for name in ("first", "second"):
            world.wait_for(name, request("gpu"), spec=relation("podAntiAffinity"))
            counts.append(steps(cycle.once))
        assert world.places()["first"] == "n1"
    assert counts[3] < counts[1] * 1.1
