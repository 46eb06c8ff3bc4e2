"""NominatedRoom: what kube-scheduler keeps free on nodes for pods that it will bind there (`status.nominatedNodeName`), as after it has preempted others for them.

In: pods with the node for which they are nominated. Out: what they request there, of those to which a pod has to yield. Rule:
k8s.io/kubernetes pkg/scheduler/framework/runtime, `addGENominatedPods`: those of the same or a higher priority.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, KeysView

from apportion.dra.node import Resources
from apportion.dra.pod import Pod


class NominatedRoom:
    """Requests of nominated pods."""

    def __init__(self) -> None:
        self._pods: dict[str, tuple[str, Pod]] = {}
        """With their nodes, by UID."""
        self._there: dict[str, dict[int, Counter[str]]] = {}
        """What they request, `pods` included, by node and priority."""
        self._levels = Counter[int]()
        """How many have each priority."""

    @property
    def pods(self) -> KeysView[str]:
        """Return the pods (UIDs)."""
        return self._pods.keys()

    @property
    def nodes(self) -> KeysView[str]:
        """Return the nodes for which they are nominated."""
        return self._there.keys()

    def put(self, pod: Pod | None, uid: str, node: str | None) -> Iterator[str]:
        """Replace the node of a pod; None: it has none any more. Yields the nodes of which that changes the room."""
        former = self._pods.get(uid)
        wanted = (node, pod) if node is not None and pod is not None else None
        if former == wanted:
            return
        for found, sign in ((former, -1), (wanted, 1)):
            if found is not None:
                self._count(*found, sign)
                yield found[0]
        if wanted is not None:
            self._pods[uid] = wanted
        else:
            del self._pods[uid]

    def _count(self, node: str, pod: Pod, sign: int) -> None:
        levels = self._there.setdefault(node, {})
        amounts = levels.setdefault(pod.priority, Counter())
        for name, amount in (*pod.requests.items(), ("pods", 1)):
            amounts[name] += sign * amount
        if not amounts["pods"]:
            del levels[pod.priority]
        if not levels:
            del self._there[node]
        self._levels[pod.priority] += sign
        if not self._levels[pod.priority]:
            del self._levels[pod.priority]

    def level(self, pods: Iterable[Pod]) -> int | None:
        """Return the least priority of nominated pods to which one of these pods has to yield; None: there is none."""
        if not self._levels:
            return None
        least = min((pod.priority for pod in pods), default=min(self._levels))
        return min((level for level in self._levels if level >= least), default=None)

    def has(self, node: str, level: int | None) -> bool:
        """Say whether a pod of this priority or a higher one is nominated for a node."""
        return level is not None and any(each >= level for each in self._there.get(node, ()))

    def on(self, node: str, level: int) -> Resources:
        """Return what the pods of this priority or a higher one request that are nominated for a node."""
        found = Counter[str]()
        for each, amounts in self._there.get(node, {}).items():
            if each >= level:
                found.update(amounts)
        return found
