"""A pod may ask for thousands of terms, as the API server accepts them: it is told that it gets no devices, and nobody else waits for them to be compared."""

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import PODS
from apportion.dra.excess import (
    MOST_LABELS,
    MOST_POD_TERMS,
    MOST_PORTS,
    MOST_REQUIREMENTS,
    MOST_RESOURCES,
    MOST_SPREADS,
    MOST_TOLERATIONS,
    MOST_VALUES,
    MOST_VOLUMES,
)
from apportion.dra.selection import Requirement, Term
from apportion.dra.taint import Toleration
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.longeststep import longest_step, served_before
from tests.scheduling.queued import fleet
from tests.scheduling.volumes import with_volume
from tests.steps import Steps

REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


def labels(number: int, values: int = 1) -> Json:
    """Return a selector of so many requirements, which all pods without labels satisfy."""
    listed = [f"v{value}" for value in range(values)]
    return {
        "matchExpressions": [
            {"key": f"k{row}", "operator": "NotIn", "values": listed} for row in range(number)
        ]
    }


def pod_terms(number: int) -> Json:
    """Half of them are of affinity."""
    rows = [
        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": str(row)}}} for row in range(number)
    ]
    kinds = {"podAffinity": rows[: number // 2], "podAntiAffinity": rows[number // 2 :]}
    return {"affinity": {kind: {REQUIRED: terms} for kind, terms in kinds.items()}}


def selected(selector: Json) -> Json:
    return {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone", "labelSelector": selector}]}}}


def spreads(number: int, when: str = "DoNotSchedule") -> Json:
    constraint = {"maxSkew": 1, "whenUnsatisfiable": when, "labelSelector": {}}
    return {"topologySpreadConstraints": [{"topologyKey": f"t{row}", **constraint} for row in range(number)]}


def node_affinity(rows: list[Json]) -> Json:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": rows}}}}


def tolerations(number: int) -> Json:
    return {"tolerations": [{"key": f"k{row}", "operator": "Exists"} for row in range(number)]}


def host_ports(number: int, address: str = "") -> Json:
    ports = [{"containerPort": port, "hostPort": port, "hostIP": address} for port in range(1, number + 1)]
    return {"containers": [{"name": "main", "ports": ports}]}


def volumes(number: int) -> Json:
    """All of one claim, as the API server accepts them."""
    return {"volumes": [{**with_volume()["volumes"][0], "name": f"v{row}"} for row in range(number)]}


def resources(number: int) -> Json:
    requests = {f"example.com/r{row}": "1" for row in range(number)}
    return {"containers": [{"name": "main", "resources": {"requests": requests}}]}


def node_selector(number: int) -> Json:
    return {"nodeSelector": {f"k{row}": "v" for row in range(number)}}


BOUNDS = {
    "resources": (resources, MOST_RESOURCES, "spec.containers:"),
    "node selector": (node_selector, MOST_LABELS, "spec.nodeSelector:"),
    "pod terms": (pod_terms, MOST_POD_TERMS, "spec.affinity:"),
    "spread": (spreads, MOST_SPREADS, "spec.topologySpreadConstraints:"),
    "requirements on pods": (lambda number: selected(labels(number)), MOST_REQUIREMENTS, "labelSelectors"),
    "values on pods": (lambda number: selected(labels(1, number)), MOST_VALUES, "labelSelectors"),
    "node terms": (
        lambda number: node_affinity([labels(1)] * number),
        MOST_REQUIREMENTS,
        "spec.affinity.nodeAffinity:",
    ),
    "empty node terms": (
        lambda number: node_affinity([{}] * (number - 1) + [labels(1)]),
        MOST_REQUIREMENTS,
        "spec.affinity.nodeAffinity:",
    ),
    "node requirements": (
        lambda number: node_affinity([labels(number)]),
        MOST_REQUIREMENTS,
        "spec.affinity.nodeAffinity:",
    ),
    "node values": (
        lambda number: node_affinity([labels(1, number)]),
        MOST_VALUES,
        "spec.affinity.nodeAffinity:",
    ),
    "tolerations": (tolerations, MOST_TOLERATIONS, "spec.tolerations:"),
    "volumes": (volumes, MOST_VOLUMES, "spec.volumes:"),
    "host ports": (host_ports, MOST_PORTS, "spec.containers:"),
}


def texts(world: ObservedCluster) -> list[tuple[str, str]]:
    """Return who was told that it asks for too much, and the text."""
    return [(name, text) for name, reason, text in world.messages if reason == "TooManyTerms"]


@pytest.mark.parametrize("field", BOUNDS)
async def test_a_pod_beyond_a_bound_hears_so_and_none_of_its_terms_is_compared(
    unanswered: Client, field: str
) -> None:
    """The Event names field, number and bound; another pod that names its claim is served."""
    make, most, path = BOUNDS[field]
    world = fleet({"n1": ("h100", 1)})
    node = world.node("n1", cpu="64", zone="a")
    node["spec"] = {"taints": [{"key": "other", "effect": "PreferNoSchedule"}]}
    world.pod("web", spec={"nodeName": "n1"})
    world.claim("c", request("gpu"))
    world.pod("asks", "c", spec=make(most + 1))
    for compared in (Requirement.matches, Toleration.tolerates):
        assert longest_step(world.cycle(unanswered), only=compared) == 0
    assert world.places() == {}
    name, text = texts(world)[0]
    assert name == "asks"
    assert path in text
    assert {str(most + 1), str(most)} <= {*text.split()}
    world.pod("other", "c")
    world.cycle(unanswered).once()
    assert world.places() == {"c": "n1"}


@pytest.mark.parametrize("field", BOUNDS)
async def test_a_pod_at_a_bound_is_decided_about(unanswered: Client, field: str) -> None:
    """Whatever comes of it."""
    make, most, _ = BOUNDS[field]
    world = fleet({"n1": ("h100", 1)})
    world.claim("c", request("gpu"))
    world.pod("asks", "c", spec=make(most))
    world.cycle(unanswered).once()
    assert texts(world) == []
    assert world.places() == {"c": "n1"} or ("c", "NotAllocated") in world.warned


async def test_terms_that_are_left_to_kube_scheduler_do_not_count(unanswered: Client) -> None:
    """Preferences, and spread that need not hold."""
    world = fleet({"n1": ("h100", 1)})
    term = {"topologyKey": "zone", "labelSelector": {}}
    preferred = [{"weight": 1, "podAffinityTerm": term}] * 1000
    nodes = [{"weight": 1, "preference": labels(1)}] * 1000
    kinds = {"podAntiAffinity": {PREFERRED: preferred}, "nodeAffinity": {PREFERRED: nodes}}
    world.claim("c", request("gpu"))
    world.pod("asks", "c", spec={"affinity": kinds, **spreads(1000, "ScheduleAnyway")})
    world.cycle(unanswered).once()
    assert world.places() == {"c": "n1"}


async def test_a_node_is_compared_once_with_what_all_constraints_of_spread_leave_out(
    unanswered: Client,
) -> None:
    """The pod's node affinity, however many there are."""
    counts = []
    for number in (1, MOST_SPREADS):
        world = fleet({f"n{each}": ("h100", 1) for each in range(10)})
        for each in range(10):
            world.node(f"n{each}", cpu="64", **{f"t{row}": "a" for row in range(MOST_SPREADS)})
        world.claim("c", request("gpu"))
        world.pod("asks", "c", spec={**spreads(number), **node_affinity([labels(1)])})
        with Steps(only=Term.matches) as counted:
            world.cycle(unanswered).once()
        assert world.places()["c"]
        counts.append(counted.count)
    assert counts[0] == counts[1] > 0


async def test_host_ports_of_one_pod_are_not_compared_with_each_of_another(unanswered: Client) -> None:
    """Of another address, so that no conflict ends the comparison."""
    world = fleet({"n1": ("h100", 1)})
    cycle = served_before(world, unanswered)
    world.pod("web", spec=host_ports(MOST_PORTS, "127.0.0.1") | {"nodeName": "n1"})
    world.claim("c", request("gpu"))
    world.pod("asks", "c", spec=host_ports(MOST_PORTS, "127.0.0.2"))
    assert longest_step(cycle) < 200 * MOST_PORTS
    assert ("c", "NotAllocated") in world.warned  # one device, which is in use


@pytest.mark.parametrize(("number", "wakes"), [(MOST_POD_TERMS, True), (MOST_POD_TERMS + 1, False)])
def test_a_pod_that_is_not_served_has_nothing_asked_anew(number: int, *, wakes: bool) -> None:
    """A pod comes to a node, of which only this one's terms speak."""
    world = fleet({"n1": ("h100", 1)})
    world.claim("c", request("gpu"))
    world.pod("asks", "c", spec=pod_terms(number))
    web = world.pod("web")
    web["metadata"]["labels"] = {"app": str(number - 1)}
    web["spec"]["nodeName"] = "n1"
    before = world.snapshot.retry_epoch
    world.pod("other", spec={"nodeName": "n1"})
    assert world.snapshot.retry_epoch == before
    world.see(PODS, web)
    assert (world.snapshot.retry_epoch > before) == wakes


@pytest.mark.parametrize("has_device", [True, False])
async def test_no_step_grows_with_what_pods_request(unanswered: Client, *, has_device: bool) -> None:
    """Fifty pods with 12,000 resources each held up everybody for a second and a half."""
    longest = []
    for number in (2, 2_000):
        world = fleet({"n1": ("h100", 8)})
        cycle = served_before(world, unanswered)
        raw = world.claim("c", request("gpu"))
        if has_device:
            world.allocate(raw, "n1", "gpu-0")
        for each in range(30):
            world.pod(f"p{each}", "c", gates=(GATE,), spec=resources(number))
        longest.append(longest_step(cycle))
    assert longest[1] < 1.5 * longest[0]
