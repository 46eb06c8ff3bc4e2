"""A pod may have tens of thousands of entries in a list, as the API server accepts it: some of them are read, and it gets no devices."""

from collections.abc import Callable

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import PODS
from apportion.dra.pod import Pod
from apportion.dra.unread import MOST_ENTRIES
from tests.observedcluster import Json, request
from tests.scheduling.queued import fleet
from tests.scheduling.test_too_many_terms import (
    REQUIRED,
    host_ports,
    labels,
    node_affinity,
    pod_terms,
    resources,
    selected,
    spreads,
    tolerations,
    volumes,
)
from tests.steps import steps


def containers(number: int) -> Json:
    return {"containers": [{"name": f"c{row}"} for row in range(number)]}


def init_containers(number: int) -> Json:
    return {"initContainers": containers(number)["containers"]}


def gates(number: int) -> Json:
    return {"schedulingGates": containers(number)["containers"]}


def namespaces(number: int) -> Json:
    term = {"topologyKey": "zone", "namespaces": ["team"] * 20 * number}
    return {"affinity": {"podAffinity": {REQUIRED: [term]}}}


FIELDS: dict[str, tuple[Callable[[int], Json], str]] = {
    "resources": (resources, "spec.containers"),
    "ports": (host_ports, "spec.containers"),
    "containers": (containers, "spec.containers"),
    "init containers": (init_containers, "spec.initContainers"),
    "gates": (gates, "spec.schedulingGates"),
    "volumes": (volumes, "spec.volumes"),
    "pod terms": (pod_terms, "spec.affinity.podAntiAffinity"),
    "requirements on pods": (lambda number: selected(labels(number)), "spec.affinity.podAntiAffinity"),
    "namespaces": (namespaces, "spec.affinity.podAffinity"),
    "node terms": (lambda number: node_affinity([labels(1)] * number), "spec.affinity.nodeAffinity"),
    "values": (lambda number: node_affinity([labels(1, 20 * number)]), "spec.affinity.nodeAffinity"),
    "spread": (spreads, "spec.topologySpreadConstraints"),
    "tolerations": (tolerations, "spec.tolerations"),
}


@pytest.mark.parametrize("field", FIELDS)
def test_work_to_read_a_pod_does_not_grow_beyond_a_number_of_entries(field: str) -> None:
    """It took up to a fifth of a second for 1.5 MB, at each change of the pod, in which nothing else was done."""
    make, _ = FIELDS[field]
    counts = []
    for number in (2 * MOST_ENTRIES, 4 * MOST_ENTRIES):
        raw = {"metadata": {"name": "p", "uid": "p"}, "spec": make(number)}
        counts.append(steps(lambda raw=raw: Pod.from_json(raw)))  # type: ignore[misc]
    assert counts[1] <= counts[0] + 10
    assert counts[0] < 80 * MOST_ENTRIES


@pytest.mark.parametrize("field", sorted(FIELDS.keys() - {"gates"}))
async def test_such_a_pod_hears_so_and_another_one_is_served(unanswered: Client, field: str) -> None:
    """The Event names the field."""
    make, path = FIELDS[field]
    world = fleet({"n1": ("h100", 1)})
    world.claim("c", request("gpu"))
    world.pod("asks", "c", spec=make(2 * MOST_ENTRIES))
    world.cycle(unanswered).once()
    assert world.places() == {}
    [text] = {text for name, reason, text in world.messages if (name, reason) == ("asks", "TooManyTerms")}
    assert text.startswith(f"{path}: "), text
    assert f"more than {MOST_ENTRIES}" in text
    world.pod("other", "c", gates=(GATE,))
    world.cycle(unanswered).once()
    assert world.places() == {"c": "n1"}


async def test_a_pod_that_runs_shuns_others_by_those_of_its_terms_that_are_read(unanswered: Client) -> None:
    """The first of them; what it takes of its node counts, whatever else it has."""
    world = fleet({"n1": ("h100", 1), "n2": ("h100", 1)})
    for name in ("n1", "n2"):
        world.node(name, cpu="64", zone=name)
    spec = {"nodeName": "n1", **pod_terms(2 * MOST_ENTRIES), **tolerations(2 * MOST_ENTRIES)}
    runs = world.pod("runs", spec=spec)
    assert world.snapshot.pod_index.load("n1")["cpu"] == 1000
    first = runs["spec"]["affinity"]["podAntiAffinity"][REQUIRED][0]
    world.claim("c", request("gpu"))
    pod = world.pod("asks", "c", gates=(GATE,))
    pod["metadata"]["labels"] = first["labelSelector"]["matchLabels"]
    world.see(PODS, pod)
    world.cycle(unanswered).once()
    assert world.places() == {"c": "n2"}
