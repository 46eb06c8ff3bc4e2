"""NodeDomains: nodes by the value of a label, and those of them that count for a topology spread constraint.

In: the nodes of the snapshot; a label's key, a pod's constraint. Out: names of nodes by value. What was found is kept until a node changes. Rules:
k8s.io/kubernetes pkg/scheduler/framework/plugins/podtopologyspread.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from apportion.cluster.snapshot import Snapshot
from apportion.dra.node import Node
from apportion.dra.pod import Pod
from apportion.dra.podrelations import Spread
from apportion.dra.taint import Tolerance
from apportion.scheduling.room.hostcapacity import HostCapacity

CLUSTER = ""
"""Stands for a label of which all nodes have the same value."""
MOST_KEPT = 16
"""Kinds of pods whose nodes are kept: some 0.3 MB for each label that they ask for, with 5,000 nodes."""

ByValue: TypeAlias = Mapping[str, frozenset[str]]
"""Names of nodes by the value of a label."""


class NodeDomains:
    """The nodes by domain."""

    def __init__(self, snapshot: Snapshot, capacity: HostCapacity) -> None:
        """`capacity` knows what node affinity allows."""
        self._snapshot, self._capacity = snapshot, capacity
        self._epoch = -1
        self._names: frozenset[str] = frozenset()
        self._domains: dict[str, ByValue] = {}
        """By the label's key."""
        self._values: dict[str, Mapping[str, str]] = {}
        """Values by the name of the node, by the label's key."""
        self._counting: dict[object, tuple[list[Node], dict[str, ByValue]]] = {}
        """Nodes that count, and they by the value of each label that was asked for, by what decides it."""

    @property
    def names(self) -> frozenset[str]:
        """The names of all nodes."""
        self._refresh()
        return self._names

    def of(self, key: str) -> ByValue:
        """Return the nodes by the value of a label; those without it are in no domain."""
        self._refresh()
        if key not in self._domains:
            self._domains[key] = found = _by_value(key, self._snapshot.nodes.values())
            self._values[key] = {name: value for value, names in found.items() for name in names}
        return self._domains[key]

    def values(self, key: str) -> Mapping[str, str]:
        """Return the value of a label by the name of the node."""
        self.of(key)
        return self._values[key]

    def around(self, key: str, there: Collection[str], leaving: AbstractSet[str]) -> frozenset[str]:
        """Return the nodes in the same domains as these, without those of `leaving` that are the only one of these in their domain."""
        self._refresh()
        # Of what no node has, as one tenant may name thousands, nothing is kept.
        if key not in self._domains and all(self.value(name, key) is None for name in there):
            return frozenset()
        domains = self.of(key)
        values = self._values[key]
        known = values.keys() & there
        if len(domains) == len(values):
            return frozenset(known.difference(leaving))  # each is a domain of its own
        counts = Counter([values[name] for name in known])
        return frozenset().union(
            *[domains[value] - leaving if count == 1 else domains[value] for value, count in counts.items()]
        )

    def value(self, name: str, key: str) -> str | None:
        """Return the value that a node has of a label; None: it has none, or there is no such node."""
        node = self._snapshot.node(name)
        return None if node is None else _value(node, key)

    def counting(self, pod: Pod, spread: Spread) -> ByValue:
        """Return the nodes on which pods count for a constraint of a pod, by domain (`calPreFilterState`)."""
        self._refresh()
        keys = tuple([each.topology_key for each in pod.relations.spread])
        tolerations = None if spread.any_taint else pod.tolerations
        affinity = None if spread.any_affinity else (tuple(sorted(pod.node_selector.items())), pod.affinity)
        kind = keys, tolerations, affinity
        if kind not in self._counting:
            if len(self._counting) >= MOST_KEPT:
                del self._counting[next(iter(self._counting))]
            rule = self._rule(pod, spread)
            self._counting[kind] = [node for node in self._snapshot.nodes.values() if rule(node)], {}
        nodes, domains = self._counting[kind]
        if spread.topology_key not in domains:
            domains[spread.topology_key] = _by_value(spread.topology_key, nodes)
        return domains[spread.topology_key]

    def _rule(self, pod: Pod, spread: Spread) -> Callable[[Node], bool]:
        """Return what says whether pods on a node count for a constraint of a pod."""
        keys, wanted = {each.topology_key for each in pod.relations.spread}, pod.node_selector.items()
        left, allows = Tolerance(pod.tolerations).untolerated, self._capacity.allows(pod.affinity)

        def counts(node: Node) -> bool:
            if not keys <= node.labels.keys() or (not spread.any_taint and left(node.taints) is not None):
                return False
            return spread.any_affinity or (
                wanted <= node.labels.items() and (pod.affinity is None or bool(allows and allows(node)))
            )

        return counts

    def _refresh(self) -> None:
        if self._epoch != self._snapshot.node_epoch:
            self._epoch = self._snapshot.node_epoch
            self._domains.clear()
            self._values.clear()
            self._counting.clear()
            self._names = frozenset(node.name for node in self._snapshot.nodes.values())


def _by_value(key: str, nodes: Iterable[Node]) -> ByValue:
    found: dict[str, set[str]] = {}
    for node in nodes:
        if (value := _value(node, key)) is not None:
            found.setdefault(value, set()).add(node.name)
    return {value: frozenset(there) for value, there in found.items()}


def _value(node: Node, key: str) -> str | None:
    return "" if key == CLUSTER else node.labels.get(key)
