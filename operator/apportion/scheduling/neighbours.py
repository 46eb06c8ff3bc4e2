"""Neighbours: the nodes that a pod's neighbours allow: required affinity and anti-affinity, hard spread, host ports.

In: the snapshot with its pods, bound or sent to a node by an allocation; members of a group that are placed, and not granted yet; a pod. Out: what rules nodes out. Rules:
k8s.io/kubernetes pkg/scheduler/framework/plugins (interpodaffinity, podtopologyspread, nodeports). Pods that match a
selection are counted once, and then as they change.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from apportion.allocator.changelog import ChangeLog
from apportion.cluster.snapshot import Snapshot
from apportion.dra.pod import NO_RELATIONS, Pod
from apportion.dra.podrelations import HostPort, PodSelection, PodTerm, Spread
from apportion.dra.taint import untolerated

MOST_COUNTED = 256
"""Selections of pods that are counted; the oldest is dropped."""

_Key: TypeAlias = PodSelection | tuple[HostPort, ...]


@dataclass(slots=True)
class _Counted:
    """Pods that match, by node."""

    cursor: tuple[int, int] = (-1, -1)
    pods: dict[str, str] = field(default_factory=dict)
    """Node by pod (UID)."""
    nodes: Counter[str] = field(default_factory=Counter)

    def put(self, uid: str, node: str | None) -> None:
        before = self.pods.pop(uid, None)
        if before is not None:
            self.nodes[before] -= 1
            if not self.nodes[before]:
                del self.nodes[before]
        if node is not None:
            self.pods[uid] = node
            self.nodes[node] += 1


class Neighbours:
    """Pods beside which a pod would run."""

    def __init__(
        self, snapshot: Snapshot, node_of: Callable[[Pod], str | None], doubted: ChangeLog[str]
    ) -> None:
        """`node_of` returns the node to which a pod is bound or sent; `doubted`: pods (UIDs) of which that may have changed though they did not."""
        self._snapshot = snapshot
        self._node_of = node_of
        self._doubted = doubted
        self._counted: dict[_Key, _Counted] = {}
        self._domains: dict[str, Mapping[str, frozenset[str]]] = {}
        """Names of nodes by the value of a label, by the label's key."""
        self._node_epoch = -1
        self._averse = -1, -1
        """How far the changes of pods were read for anti-affinity."""
        self._terms: dict[PodTerm, dict[str, None]] = {}
        """Anti-affinity of pods on nodes: the pods (UIDs) by term."""
        self._averse_pods: dict[str, tuple[PodTerm, ...]] = {}
        self._placed: dict[str, str] = {}
        """Where pods (UIDs) are counted that nobody has sent to a node yet."""

    def place(self, pod: Pod, node: str | None) -> None:
        """Count a pod on a node though nobody has sent it there yet; None: no longer."""
        if node is not None:
            self._placed[pod.uid] = node
        else:
            self._placed.pop(pod.uid, None)
        for key, counted in self._counted.items():
            if pod.uid in counted.pods or _matches(key, pod):
                counted.put(pod.uid, self._where(pod.uid))
        if pod.relations.anti_affinity:
            self._put_averse(pod.uid)

    def ruled_out(self, pod: Pod) -> Iterator[tuple[str, frozenset[str]]]:
        """Yield reasons, for people, with the names of the nodes that each rules out."""
        asked = pod.relations
        if asked.ports:
            taken = self._nodes(asked.ports, pod)
            yield "host port", frozenset(taken)
        for term in asked.anti_affinity:
            yield "pod anti-affinity", self._around(term, self._nodes(term.pods, pod))
        for term, owners in self._averse_terms().items():
            if term.pods.matches(pod.namespace, pod.labels):
                nodes = (node for uid in owners if uid != pod.uid and (node := self._where(uid)) is not None)
                yield "anti-affinity of a pod there", self._around(term, Counter(nodes))
        if asked.affinity:
            yield "pod affinity", self._without_company(pod)
        for spread in asked.spread:
            yield "topology spread", self._too_skewed(pod, spread)

    def _without_company(self, pod: Pod) -> frozenset[str]:
        """Return the nodes whose domains have no pod that matches all terms of the pod's affinity."""
        terms = pod.relations.affinity
        everywhere = frozenset(node.name for node in self._snapshot.nodes.values())
        together = terms[0].pods
        for term in terms[1:]:
            together = _both(together, term.pods)
        counted = self._nodes(together, pod)
        around = [self._around(term, counted) for term in terms]
        # The first of its kind: it needs no company but its own. A pod in no domain is nobody's company.
        if not any(around) and all(term.pods.matches(pod.namespace, pod.labels) for term in terms):
            around = [frozenset().union(*self._by_value(term.topology_key).values()) for term in terms]
        return everywhere.difference(frozenset.intersection(*around))

    def _too_skewed(self, pod: Pod, spread: Spread) -> frozenset[str]:
        """Return the nodes in whose domain one pod more would be too many, and those in no domain."""
        domains, counted = self._by_value(spread.topology_key), self._nodes(spread.pods, pod)
        eligible = {
            value: [name for name in names if self._is_eligible(pod, name, spread)]
            for value, names in domains.items()
        }
        counts = {value: sum(counted[name] for name in names) for value, names in eligible.items() if names}
        least = min(counts.values(), default=0) if len(counts) >= spread.least_domains else 0
        own = spread.pods.matches(pod.namespace, pod.labels)
        allowed = [
            domains[value] for value, count in counts.items() if count + own - least <= spread.most_skew
        ]
        return frozenset(node.name for node in self._snapshot.nodes.values()) - frozenset().union(*allowed)

    def _is_eligible(self, pod: Pod, name: str, spread: Spread) -> bool:
        """Say whether pods on a node count for a constraint (podtopologyspread, `calPreFilterState`)."""
        node = self._snapshot.node(name)
        if node is None or any(each.topology_key not in node.labels for each in pod.relations.spread):
            return False
        if not spread.any_taint and untolerated(node.taints, pod.tolerations) is not None:
            return False
        if spread.any_affinity:
            return True
        if any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
            return False
        return pod.affinity is None or any(term.matches(name, node.labels) for term in pod.affinity)

    def _around(self, term: PodTerm, nodes: Mapping[str, int]) -> frozenset[str]:
        """Return the nodes in the same domains as these."""
        domains = self._by_value(term.topology_key)
        found = [node for name in nodes if (node := self._snapshot.node(name)) is not None]
        values = {node.labels.get(term.topology_key) for node in found}
        return frozenset().union(*(domains[value] for value in values if value is not None))

    def _by_value(self, key: str) -> Mapping[str, frozenset[str]]:
        if self._node_epoch != self._snapshot.node_epoch:
            self._node_epoch = self._snapshot.node_epoch
            self._domains.clear()
        if key not in self._domains:
            found: dict[str, set[str]] = {}
            for node in self._snapshot.nodes.values():
                if key in node.labels:
                    found.setdefault(node.labels[key], set()).add(node.name)
            self._domains[key] = {value: frozenset(names) for value, names in found.items()}
        return self._domains[key]

    def _nodes(self, key: _Key, but: Pod) -> Counter[str]:
        """Return how many pods match on each node, without one pod."""
        counted = self._counted.get(key)
        if counted is None:
            if len(self._counted) >= MOST_COUNTED:
                del self._counted[next(iter(self._counted))]
            counted = self._counted[key] = _Counted()
        counted.cursor, changed = self._since(counted.cursor)
        pods = self._snapshot.pods
        for uid in {*pods, *counted.pods} if changed is None else changed:
            pod = pods.get(uid)
            node = self._where(uid) if pod is not None and _matches(key, pod) else None
            counted.put(uid, node)
        own = counted.pods.get(but.uid)
        return counted.nodes - Counter({own: 1}) if own is not None else counted.nodes

    def _since(self, cursor: tuple[int, int]) -> tuple[tuple[int, int], Sequence[str] | None]:
        """Return the cursor after the latest change, and the pods (UIDs) that changed after this one; None: too many."""
        pods, changed = self._snapshot.changes.pods.since(cursor[0])
        nodes, doubted = self._doubted.since(cursor[1])
        return (pods, nodes), None if changed is None or doubted is None else [*changed, *doubted]

    def _averse_terms(self) -> Mapping[PodTerm, Mapping[str, None]]:
        self._averse, changed = self._since(self._averse)
        for uid in {*self._snapshot.pods, *self._averse_pods} if changed is None else changed:
            self._put_averse(uid)
        return self._terms

    def _put_averse(self, uid: str) -> None:
        pod = self._snapshot.pods.get(uid)
        terms = pod.relations.anti_affinity if pod is not None else ()
        if terms and self._where(uid) is None:
            terms = ()
        for term in self._averse_pods.pop(uid, ()):
            self._terms[term].pop(uid, None)
            if not self._terms[term]:
                del self._terms[term]
        if terms:
            self._averse_pods[uid] = terms
            for term in terms:
                self._terms.setdefault(term, {})[uid] = None

    def _where(self, uid: str) -> str | None:
        pod = self._snapshot.pods.get(uid)
        if pod is None or pod.finished:
            return None
        return self._node_of(pod) or self._placed.get(uid)


def are_related(pods: Iterable[Pod]) -> bool:
    """Say whether any pod asks something of its neighbours; most do not."""
    return any(pod.relations is not NO_RELATIONS for pod in pods)


def are_apart(one: Pod, other: Pod) -> bool:
    """Say whether two pods cannot be on one node: one of them shuns the other, or both take a port of it."""
    shunned = [
        term.pods.matches(there.namespace, there.labels)
        for here, there in ((one, other), (other, one))
        for term in here.relations.anti_affinity
    ]
    return any(shunned) or _matches(one.relations.ports, other)


def _both(first: PodSelection, second: PodSelection) -> PodSelection:
    """Select the pods that both select."""
    if first.labels is None or second.labels is None:
        return replace(first, labels=None)
    both = [each.namespaces for each in (first, second) if each.namespaces is not None]
    namespaces = frozenset.intersection(*both) if both else None
    return PodSelection(namespaces, (*first.labels, *second.labels))


def _matches(key: _Key, pod: Pod) -> bool:
    """Say whether a pod is selected, or takes one of these ports."""
    if isinstance(key, PodSelection):
        return key.matches(pod.namespace, pod.labels, deleting=pod.deleting)
    return any(one.conflicts(taken) for one in key for taken in pod.relations.ports)
