"""PodExcess: what a pod asks of its node, and of the pods beside it, beyond what is evaluated.

In: a pod. Out: the first field with more terms than a decision may take, or None. The API server and kube-scheduler have no such bounds; each of
these terms is compared with all nodes, or all pods on nodes, before anybody else is served.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from apportion.dra.pod import NO_RELATIONS, Pod
from apportion.dra.selection import Requirement
from apportion.dra.unread import MOST_ENTRIES

MOST_POD_TERMS = 64
"""Required terms of pod affinity and anti-affinity."""
MOST_SPREADS = 16
"""Topology spread constraints that must hold: each is compared with the labels that the others name, too."""
MOST_REQUIREMENTS = 256
"""Requirements on labels: of required node affinity (a term counts as one at least), and of all selectors of pods."""
MOST_VALUES = 4096
"""Values that these requirements name: a term of node affinity may list the hosts of a large cluster."""
MOST_RESOURCES = 128
"""Resources that its containers request; a node has some ten."""
MOST_LABELS = 256
"""Labels of its node selector."""
MOST_TOLERATIONS = 256
MOST_PORTS = 256
"""Host ports, of all containers."""
MOST_VOLUMES = 128
"""Volumes that stand for PersistentVolumeClaims."""


@dataclass(frozen=True, slots=True)
class PodExcess:
    """A field of which a pod has too much."""

    field: str
    """Its path in the pod."""
    what: str
    """What is counted, in the plural."""
    count: int
    most: int


def excess_of(pod: Pod) -> PodExcess | None:
    """Return the first field in which a pod asks for more than is evaluated; None: there is none, as almost always."""
    is_plain = pod.relations is NO_RELATIONS and pod.affinity is None and not has_many_needs(pod)
    if is_plain and len(pod.tolerations) <= MOST_TOLERATIONS and len(pod.volumes) <= MOST_VOLUMES:
        return None  # most pods ask for nothing of the kind
    return next((PodExcess(*each) for each in _counted(pod) if each[2] > each[3]), None)


def has_many_needs(pod: Pod) -> bool:
    """Say whether a pod requests more resources, or selects nodes by more labels, than is evaluated: even to compare it with other pods takes long; or is not read to its end."""
    return (
        len(pod.requests) > MOST_RESOURCES or len(pod.node_selector) > MOST_LABELS or pod.unread is not None
    )


def _counted(pod: Pod) -> Iterator[tuple[str, str, int, int]]:
    if pod.unread is not None:
        yield pod.unread.field, "entries of lists at least", pod.unread.count, MOST_ENTRIES
    asked = pod.relations
    terms = len(asked.affinity) + len(asked.anti_affinity)
    what = "required terms of podAffinity and podAntiAffinity"
    yield "spec.affinity", what, terms, MOST_POD_TERMS
    what = "constraints with whenUnsatisfiable: DoNotSchedule"
    yield "spec.topologySpreadConstraints", what, len(asked.spread), MOST_SPREADS
    selectors = [row for selection in asked.selections for row in selection.labels or ()]
    selectors += [row for each in asked.selections for choice in each.chosen for row in choice.labels]
    at = "spec.affinity, spec.topologySpreadConstraints"
    yield at, "requirements in labelSelectors", len(selectors), MOST_REQUIREMENTS
    yield at, "values in labelSelectors", _values(selectors), MOST_VALUES
    rows = [(*term.labels, *term.fields) for term in pod.affinity or ()]
    at = "spec.affinity.nodeAffinity"
    yield at, "required terms and requirements", sum(max(1, len(row)) for row in rows), MOST_REQUIREMENTS
    yield at, "values", _values(each for row in rows for each in row), MOST_VALUES
    yield "spec.containers", "requested resources", len(pod.requests), MOST_RESOURCES
    yield "spec.nodeSelector", "labels", len(pod.node_selector), MOST_LABELS
    yield "spec.containers", "host ports", len(asked.ports), MOST_PORTS
    yield "spec.volumes", "volumes of PersistentVolumeClaims", len(pod.volumes), MOST_VOLUMES
    yield "spec.tolerations", "tolerations", len(pod.tolerations), MOST_TOLERATIONS


def _values(requirements: Iterable[Requirement]) -> int:
    return sum(len(each.values) for each in requirements)
