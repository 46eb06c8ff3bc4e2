"""HostCapacity: which nodes could take a pod, as kube-scheduler will see them.

In: nodes, what bound pods request there, the pods that allocations send there. Out: the nodes that could take given pods
together, and the first reason against each other node. Modelled: cpu, memory, pod count, every other resource,
nodeSelector, required node affinity, taints, `unschedulable`. Not modelled: spread, pod affinity, volumes, host ports;
kube-scheduler refuses a node for those, which is then excluded.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from apportion.allocator.facts.host import HostResources
from apportion.dra.node import Node, Resources
from apportion.dra.pod import Pod
from apportion.dra.taint import Taint, untolerated

_UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "NoSchedule")

MOST_KEPT = 64
"""Sets of pods, by what nodes look at, whose answer is kept for other pods with equal requests and constraints."""


class Fit(NamedTuple):
    """Which nodes could take some pods."""

    nodes: frozenset[str]
    against: Mapping[str, str]
    """What rules the others out, by node."""
    seen: int
    """How many entries of the log of promises it takes into account."""


class HostCapacity:
    """What is left on every node, within one pass."""

    def __init__(self, nodes: Iterable[Node], load: Callable[[str], Resources] = lambda _: {}) -> None:
        """`load` returns what bound pods request of a node, by its name, `pods` included."""
        self.nodes: dict[str, Node] = {node.name: node for node in nodes}
        self._load = load
        self._promised: dict[str, dict[str, int]] = {}
        self._taken: dict[str, HostResources] = {}
        self._shared = False
        """Whether a caller of `taken` holds the dict: it is then replaced, not changed."""
        self._log: list[str] = []
        """The node of every promise, in order."""
        self._fits: dict[object, Fit] = {}

    def copy(self) -> "HostCapacity":
        """Return a copy, in which pods can be counted that are only tried."""
        found = HostCapacity((), self._load)
        found.nodes = self.nodes
        found._promised = {node: dict(used) for node, used in self._promised.items()}
        found._taken = dict(self._taken)
        found._log = list(self._log)
        found._fits = dict(self._fits)
        return found

    def take(self, node: str, pod: Pod) -> None:
        """Count a pod that our allocation sends to the node."""
        used = self._promised.setdefault(node, {})
        for name, amount in pod.requests.items():
            used[name] = used.get(name, 0) + amount
        used["pods"] = used.get("pods", 0) + 1
        if self._shared:
            self._taken, self._shared = dict(self._taken), False
        self._taken[node] = HostResources.of(used)
        self._log.append(node)

    @property
    def taken(self) -> Mapping[str, HostResources]:
        """Return the cpu and memory that are promised, by node, on top of what bound pods take."""
        self._shared = True
        return self._taken

    def fitting(self, pods: Sequence[Pod]) -> tuple[frozenset[str], Mapping[str, int]]:
        """Return the nodes that could take all the pods together, and how many nodes each reason ruled out."""
        key = tuple([constraints_of(pod) for pod in pods])
        fit = self._fits.get(key)
        if fit is None or fit.seen < len(self._log):
            if fit is None and len(self._fits) >= MOST_KEPT:
                self._fits.clear()
            fit = self._fits[key] = self._look(pods, fit)
        return fit.nodes, Counter(fit.against.values())

    def _look(self, pods: Sequence[Pod], former: Fit | None) -> Fit:
        """Look at all nodes, or at those with promises made since the former look."""
        wanted = total(pods)
        names = self.nodes.keys() if former is None else self.nodes.keys() & self._log[former.seen :]
        nodes = set(former.nodes) if former is not None else set()
        against = dict(former.against) if former is not None else {}
        for name in names:
            reason = self._against(self.nodes[name], pods, wanted)
            if reason is None:
                nodes.add(name)
            else:
                # Promises are only added, so a node that is ruled out stays so.
                nodes.discard(name)
                against[name] = reason
        return Fit(frozenset(nodes), against, len(self._log))

    def _against(self, node: Node, pods: Sequence[Pod], wanted: Resources) -> str | None:
        for pod in pods:
            reason = against(node, pod)
            if reason is not None:
                return reason
        load, promised = self._load(node.name), self._promised.get(node.name, {})
        for resource, amount in wanted.items():
            used = load.get(resource, 0) + promised.get(resource, 0)
            if amount and used + amount > node.allocatable.get(resource, 0):
                return f"too little {resource}"
        return None


def against(node: Node, pod: Pod) -> str | None:
    """Return why the node can never take the pod, whatever else runs there; None when it could."""
    if node.unschedulable and untolerated((_UNSCHEDULABLE,), pod.tolerations):
        return "unschedulable"
    taint = untolerated(node.taints, pod.tolerations)
    if taint is not None:
        return f"taint {taint.key}"
    if any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
        return "nodeSelector"
    if pod.affinity is not None and not any(term.matches(node.name, node.labels) for term in pod.affinity):
        return "node affinity"
    return None


def constraints_of(pod: Pod) -> object:
    """Return all that `HostCapacity` looks at in a pod."""
    return (
        tuple(sorted(pod.requests.items())),
        tuple(sorted(pod.node_selector.items())),
        pod.affinity,
        pod.tolerations,
    )


def requested(pods: Sequence[Pod]) -> HostResources:
    """Return the cpu and memory that the pods request together."""
    return HostResources.of(total(pods))


def total(pods: Sequence[Pod]) -> dict[str, int]:
    """Return what the pods request together."""
    wanted: dict[str, int] = {"pods": len(pods)}
    for pod in pods:
        for name, amount in pod.requests.items():
            wanted[name] = wanted.get(name, 0) + amount
    return wanted
