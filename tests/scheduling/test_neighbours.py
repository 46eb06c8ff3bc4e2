"""Pods go beside those that they ask for, and not beside those that they shun."""

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import NODES, PODS
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


async def test_pods_of_named_namespaces_are_shunned_whichever_others_are_chosen_by_labels(
    unanswered: Client,
) -> None:
    """Both count (core/v1, `PodAffinityTerm`)."""
    world = zones(n1="a", n2="b")
    neighbour(world, "web", "n1", namespace="others")
    chosen = {"matchLabels": {"team": "a"}}
    term = relation("podAntiAffinity", namespaces=["others"], namespaceSelector=chosen)
    assert place(world, unanswered, term) == "n2"


async def test_a_pod_is_kept_off_by_those_that_shun_it(unanswered: Client) -> None:
    """Anti-affinity counts in both directions, until the other pod ends."""
    world = zones(n1="a")
    other = neighbour(world, "alone", "n1", **relation("podAntiAffinity"))
    assert place(world, unanswered, {}, {"app": "web"}) is None
    other["status"] = {"phase": "Succeeded"}
    world.see(PODS, other)
    assert place(world, unanswered, {}, {"app": "web"}) == "n1"


async def test_a_pod_that_says_twice_whom_it_shuns_keeps_nobody_off_once_it_has_ended(
    unanswered: Client,
) -> None:
    """Nor does it end any decision."""
    world, once = zones(n1="a"), relation("podAntiAffinity")
    [[terms]] = [kind.values() for kind in once["affinity"].values()]
    terms *= 2
    other = neighbour(world, "alone", "n1", **once)
    world.claim("c", request("gpu"))
    pod, cycle = world.pod("c", "c"), world.cycle(unanswered)
    pod["metadata"]["labels"] = {"app": "web"}
    world.see(PODS, pod)
    cycle.once()
    assert world.places() == {}
    world.gone(PODS, other)
    cycle.once()
    assert world.places() == {"c": "n1"}


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


@pytest.mark.parametrize("node", ["bare", "vanished"])
async def test_a_pod_in_no_domain_is_nobodys_company(node: str, unanswered: Client) -> None:
    """Its node lacks the label, or is gone: the next one is the first of its kind (interpodaffinity, `satisfyPodAffinity`)."""
    world = zones(n1="a")
    world.node("bare")
    neighbour(world, "web", node)
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


def spread(**constraint: Json | int | str) -> Json:
    own = {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": APP}
    return {"topologySpreadConstraints": [own | constraint]}


async def test_a_spread_with_an_empty_selector_counts_no_pods(unanswered: Client) -> None:
    """So every node suits, though some have pods and another one, without room, has none (podtopologyspread, `countPodsMatchSelector`)."""
    world = zones(n1="a", n2="a")
    world.node("full", cpu="0", **{HOST: "full"})
    for name, node in (("w1", "n1"), ("x1", "n1"), ("w2", "n2"), ("x2", "n2")):
        neighbour(world, name, node)
    own = {"topologyKey": HOST, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    assert place(world, unanswered, {"topologySpreadConstraints": [own]}) is not None


async def test_a_pod_that_is_being_deleted_is_not_counted_by_a_spread(unanswered: Client) -> None:
    """On a lost node it stays until somebody deletes it by force, and kube-scheduler counts it no more: who waits is asked about then."""
    world = zones(n1="a")
    world.node("n2", cpu="64", **{ZONE: "b"})
    lost = neighbour(world, "lost", "n1")
    world.wait_for("c", request("gpu"), spec=spread())
    pod = world.seen[PODS, "team", "c"]
    pod["metadata"]["labels"] = {"app": "web"}
    world.see(PODS, pod)
    cycle = world.cycle(unanswered)
    cycle.once()
    assert world.places() == {}

    lost["metadata"]["deletionTimestamp"] = "2026-01-01T01:00:00Z"
    world.see(PODS, lost)
    cycle.once()

    assert world.places() == {"c": "n1"}


@pytest.mark.parametrize(
    ("policies", "node"),
    [
        ({}, None),
        ({"nodeTaintsPolicy": "Honor"}, "n1"),
        ({"nodeTaintsPolicy": "Ignore"}, None),
        ({"nodeTaintsPolicy": "Honor", "minDomains": 2}, None),
    ],
)
async def test_a_spread_says_whether_tainted_nodes_count(
    unanswered: Client, policies: Json, node: str | None
) -> None:
    """Zone a has a pod already, and zone b, where nobody may go, none."""
    world = zones(n1="a")
    tainted = world.node("n2", cpu="64", **{ZONE: "b"})
    tainted["spec"] = {"taints": [{"key": "control-plane", "effect": "NoSchedule"}]}
    world.see(NODES, tainted)
    neighbour(world, "web", "n1")
    assert place(world, unanswered, spread(**policies), {"app": "web"}) == node


@pytest.mark.parametrize(("policies", "node"), [({}, "n1"), ({"nodeAffinityPolicy": "Ignore"}, None)])
async def test_a_spread_says_whether_nodes_count_that_the_pod_excludes(
    unanswered: Client, policies: Json, node: str | None
) -> None:
    """Without a policy only those count that its selector and affinity allow."""
    world = zones(n1="a", n2="b")
    neighbour(world, "web", "n1")
    spec = {"nodeSelector": {HOST: "n1"}, **spread(**policies)}
    assert place(world, unanswered, spec, {"app": "web"}) == node


async def test_a_node_without_the_label_of_another_constraint_is_in_no_domain(unanswered: Client) -> None:
    """A zone whose nodes are in no rack is none for a pod that is spread over racks, too."""
    world = zones(n1="a", n2="b")
    world.node("n1", cpu="64", **{ZONE: "a", "rack": "r1"})
    neighbour(world, "web", "n1")
    racks = spread(topologyKey="rack", maxSkew=5)["topologySpreadConstraints"]
    spec = {"topologySpreadConstraints": [*spread()["topologySpreadConstraints"], *racks]}
    assert place(world, unanswered, spec, {"app": "web"}) == "n1"


async def test_a_node_has_each_host_port_once(unanswered: Client) -> None:
    """Unless protocol or address differ; `::` is one of them."""

    def ports(**port: object) -> Json:
        return {"containers": [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80, **port}]}]}

    for taken, asked, free in (
        ({}, {}, False),
        ({"hostIP": "10.0.0.1"}, {}, False),
        ({"hostIP": "10.0.0.1"}, {"hostIP": "10.0.0.2"}, True),
        ({}, {"protocol": "UDP"}, True),
        ({"hostIP": "::"}, {"hostIP": "10.0.0.1"}, True),
        ({"hostIP": "fd00::1"}, {"hostIP": "::"}, True),
        ({"hostIP": "::"}, {}, False),
    ):
        world = zones(n1="a")
        neighbour(world, "web", "n1", **ports(**taken))
        assert (place(world, unanswered, ports(**asked)) == "n1") == free


@pytest.mark.parametrize("asks", ["containers", "initContainers"])
async def test_a_sidecar_takes_its_host_port(asks: str, unanswered: Client) -> None:
    """An init container that ends before the others start takes none (kube-scheduler's NodePorts)."""
    row: Json = {"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}]}
    for own, free in (({"restartPolicy": "Always"}, False), ({}, True)):
        world = zones(n1="a")
        there: Json = {"initContainers": [row | own]}
        neighbour(world, "web", "n1", **there)
        asked = row if asks == "containers" else row | {"restartPolicy": "Always"}
        assert (place(world, unanswered, {asks: [asked]}) == "n1") == free


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
