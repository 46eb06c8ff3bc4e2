"""Room: which nodes could take a pod, as kube-scheduler will see them.

In: nodes, pods, who is already promised where. Out: per pod and node, yes or the first reason against it. Modelled:
cpu, memory, pod count, every other resource, nodeSelector, required node affinity, taints, `unschedulable`. Not
modelled: spread, pod affinity, volumes, host ports; those show as a take-back, and the node is then excluded.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from apportion.allocator.host import Amounts
from apportion.dra.node import Node, Resources
from apportion.dra.pod import Pod
from apportion.dra.taint import Taint, untolerated

_UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "NoSchedule")


class Room:
    """What is left on every node, for one cycle."""

    def __init__(self, nodes: Iterable[Node], load: Callable[[str], Resources] = lambda _: {}) -> None:
        """`load` tells what bound pods take of a node, by its name, `pods` included."""
        self.nodes: dict[str, Node] = {node.name: node for node in nodes}
        self._load = load
        self._promised: dict[str, dict[str, int]] = {}
        self._taken: dict[str, Amounts] = {}
        self._lent = False
        """Whether somebody holds what was taken as it is now; it is then replaced, not changed."""

    def copy(self) -> "Room":
        """Return the room as it is now, to try things on."""
        found = Room((), self._load)
        found.nodes = self.nodes
        found._promised = {node: dict(used) for node, used in self._promised.items()}
        found._taken = dict(self._taken)
        return found

    def take(self, node: str, pod: Pod) -> None:
        """Count a pod that our allocation sends to the node."""
        used = self._promised.setdefault(node, {})
        for name, amount in pod.requests.items():
            used[name] = used.get(name, 0) + amount
        used["pods"] = used.get("pods", 0) + 1
        if self._lent:
            self._taken, self._lent = dict(self._taken), False
        self._taken[node] = Amounts.of(used)

    @property
    def taken(self) -> Mapping[str, Amounts]:
        """Return the cpu and memory that are promised, by node, on top of what bound pods take."""
        self._lent = True
        return self._taken

    def fitting(self, pods: Sequence[Pod]) -> tuple[frozenset[str], Mapping[str, int]]:
        """Return the nodes that could take all the pods together, and how many nodes each reason ruled out."""
        wanted = total(pods)
        found, against = [], dict[str, int]()
        for name, node in self.nodes.items():
            reason = self._against(node, pods, wanted)
            if reason is None:
                found.append(name)
            else:
                against[reason] = against.get(reason, 0) + 1
        return frozenset(found), against

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
    """Return why the node can never take the pod, whoever else is there; None when it could."""
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


def amounts(pods: Sequence[Pod]) -> Amounts:
    """Return the cpu and memory that the pods request together."""
    return Amounts.of(total(pods))


def total(pods: Sequence[Pod]) -> dict[str, int]:
    """Return what the pods request together."""
    wanted: dict[str, int] = {"pods": len(pods)}
    for pod in pods:
        for name, amount in pod.requests.items():
            wanted[name] = wanted.get(name, 0) + amount
    return wanted
