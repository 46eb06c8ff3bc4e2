"""Neighbours: the nodes that a pod's neighbours allow: required affinity and anti-affinity, hard spread, host ports, volumes of one pod.

In: the pods on nodes; a pod. Out: what rules nodes out, and which pods would have to go. Rules:
k8s.io/kubernetes pkg/scheduler/framework/plugins (interpodaffinity, podtopologyspread, nodeports, volumerestrictions).
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TypeAlias

from apportion.cluster.snapshot import Snapshot
from apportion.dra.pod import NO_RELATIONS, Pod
from apportion.dra.podrelations import PodSelection, Spread
from apportion.dra.selectionindex import Matched, matches
from apportion.scheduling.pace import Pace
from apportion.scheduling.room.company import is_company
from apportion.scheduling.room.hostcapacity import HostCapacity
from apportion.scheduling.room.nodedomains import CLUSTER, ByValue, NodeDomains
from apportion.scheduling.room.placedpods import ByNode, Goes, PlacedPods

HOSTNAME = "kubernetes.io/hostname"
"""The node label in whose value no two nodes agree."""
MOST_SPREADS_KEPT = 64
"""Constraints of which is kept how many pods are where."""
_Spreading: TypeAlias = tuple[ByNode, ByValue, Counter[str], int]
"""The pods that a constraint counts, the nodes that count for it, by domain, how many of the pods are in each, and how many a domain may have for one more."""


class Neighbours:
    """Pods beside which a pod would run."""

    def __init__(self, snapshot: Snapshot, placed: PlacedPods, capacity: HostCapacity) -> None:
        """`placed`: the pods on nodes; `capacity` knows what node affinity allows."""
        self._snapshot = snapshot
        self._placed = placed
        self._domains = NodeDomains(snapshot, capacity)
        self._moment: object = None
        """Of nodes and placed pods, for which spreads are known."""
        self._spreads: dict[tuple[str, Spread], _Spreading] = {}
        """By pod (UID): the same is asked about many nodes, and again when the pod is refused."""

    def ahead(self, pods: Iterable[Pod]) -> Generator[None, None, bool]:
        """Find what `ruled_out` will ask about pods; yields where others may run. Says whether all of it is kept."""
        pace, asked = Pace(), dict[Matched, None]()
        # The same is asked about each pod of a template; they share what was read of its labels.
        alike = {(pod.namespace, id(pod.labels), pod.relations, pod.volumes): pod for pod in pods}
        for pod in alike.values():
            if pace.rests():
                yield
            selections = self._asked(pod)
            yield from self._placed.ahead(pod, selections, pace)
            for spread in pod.relations.spread:
                self._spread(pod, spread)
                yield
            asked.update(dict.fromkeys(selections))
        return all(map(self._placed.is_counted, asked))

    def _asked(self, pod: Pod) -> tuple[Matched, ...]:
        """Return which pods on nodes `ruled_out` asks for."""
        if pod.relations is NO_RELATIONS and not pod.volumes:
            return ()
        exclusive, ports = self._snapshot.volumes.exclusive(pod), pod.relations.ports
        return (*([ports] if ports else ()), *([exclusive] if exclusive else ()), *pod.relations.selections)

    def ruled_out(
        self, pod: Pod, goes: Goes | None = None, beside: Iterable[Pod] = ()
    ) -> Iterator[tuple[str, frozenset[str]]]:
        """Yield reasons, for people, with the names of the nodes that each rules out.

        `goes`: the pods of which it says so keep the pod off all nodes but their own. `beside`: pods that get to the same node before it.
        """
        asked = pod.relations
        against = self._against(pod)
        for reason, key, there in against if goes is None else _together(against):
            yield reason, self._around(key, there, goes)
        if asked.affinity:
            selects = self._snapshot.namespaces.selects
            has_company = any(is_company(other, pod, selects) for other in beside)
            yield "pod affinity", self._without_company(pod, has_company=has_company)
        for spread in asked.spread:
            yield "topology spread", self._too_skewed(pod, spread, goes)

    def rules_out(self, pod: Pod) -> bool:
        """Say whether `ruled_out` has any reason for a pod, also one that rules no node out."""
        asked = pod.relations
        own = asked.affinity or asked.anti_affinity or asked.spread or asked.ports
        return bool(own or (pod.volumes and self._snapshot.volumes.exclusive(pod))) or any(
            self._placed.shunning(pod)
        )

    def kind(self, pod: Pod) -> object:
        """Return what is looked at in a pod; one that is counted on a node is a kind of its own, as it is no neighbour of itself."""
        exclusive = self._snapshot.volumes.exclusive(pod) if pod.volumes else None
        own = pod.uid if self._placed.is_placed(pod) else ""
        return pod.namespace, tuple(sorted(pod.labels.items())), pod.relations, exclusive, own

    def has_obstacles(self, pod: Pod) -> bool:
        """Say whether any pod might have to go from a node before this one could go there."""
        return bool(pod.relations.spread) or any(there for _, _, there in self._against(pod))

    def obstacles(self, pod: Pod, node: str) -> list[tuple[int, frozenset[str]]]:
        """Return how many pods have to go, and of which (UIDs), before a pod may go to a node that has the labels that it asks for.

        First all that keep it off by a host port, or because one shuns the other; then, for each spread, those that are counted in the domain.
        """
        off = frozenset(
            uid
            for _, key, there in self._against(pod)
            for name in self._around(key, {node: ()}) & there.keys()
            for uid in there[name]
        )
        found = [(len(off), off)]
        for spread in pod.relations.spread:
            counted, domains, _, most = self._spread(pod, spread)
            value = self._domains.value(node, spread.topology_key)
            names = domains.get(value, frozenset()) if value is not None else frozenset()
            pods = frozenset(uid for name in names for uid in counted.get(name, ()))
            found.append((max(0, len(pods) - most), pods))
        return found

    def _against(self, pod: Pod) -> Iterator[tuple[str, str | None, ByNode]]:
        """Yield what keeps a pod off: the reason, the label in whose value nodes are ruled out (None: by themselves), and the pods."""
        if pod.relations.ports:
            yield "host port", None, self._placed.matching(pod.relations.ports, pod)
        exclusive = self._snapshot.volumes.exclusive(pod) if pod.volumes else None
        if exclusive is not None:
            reason = f"volume {' or '.join(exclusive.claims)} is used by another pod (ReadWriteOncePod)"
            yield reason, CLUSTER, self._placed.matching(exclusive, pod)
        for term in pod.relations.anti_affinity:
            yield "pod anti-affinity", term.topology_key, self._placed.matching(term.pods, pod)
        for key, there in self._placed.shunning(pod):
            yield "anti-affinity of a pod there", key, there

    def _without_company(self, pod: Pod, *, has_company: bool) -> frozenset[str]:
        """Return the nodes whose domains have no pod that matches all terms of the pod's affinity; those in no domain, where it `has_company` that comes to the same node."""
        terms = pod.relations.affinity
        everywhere = self._domains.names
        counted = self._placed.matching(pod.relations.company, pod)
        keys = {term.topology_key for term in terms}
        around = [self._around(key, counted) for key in keys]
        # The first of its kind: it needs no company but its own. A pod in no domain is nobody's company.
        selects = self._snapshot.namespaces.selects
        if has_company or (not any(around) and is_company(pod, pod, selects)):
            around = [frozenset().union(*self._domains.of(key).values()) for key in keys]
        return everywhere.difference(frozenset.intersection(*around))

    def _too_skewed(self, pod: Pod, spread: Spread, goes: Goes | None) -> frozenset[str]:
        """Return the nodes in whose domain one pod more would be too many, and those in no domain."""
        nodes, allowed = self._domains.of(spread.topology_key), set[str]()
        counted, domains, counts, most = self._spread(pod, spread)
        for value, names in domains.items():
            if counts[value] <= most:
                allowed |= nodes[value]
            elif goes is not None:
                allowed.update(
                    name
                    for name in names
                    if counts[value] - self._placed.going(counted.get(name, ()), goes) <= most
                )
        return self._domains.names - allowed

    def _spread(self, pod: Pod, spread: Spread) -> _Spreading:
        """Return what decides about a constraint of a pod."""
        moment = self._snapshot.node_epoch, self._placed.moment
        if moment != self._moment:
            self._moment, self._spreads = moment, {}
        key = pod.uid, spread
        if key not in self._spreads:
            if len(self._spreads) >= MOST_SPREADS_KEPT:
                self._spreads.clear()
            self._spreads[key] = self._counted_by(pod, spread)
        return self._spreads[key]

    def _counted_by(self, pod: Pod, spread: Spread) -> _Spreading:
        counted, domains = self._counted(pod, spread), self._domains.counting(pod, spread)
        counts, values = Counter[str](), self._domains.values(spread.topology_key)
        for name, pods in counted.items():
            value = values.get(name)
            if value is not None and name in domains.get(value, ()):
                counts[value] += len(pods)
        every = len(counts) == len(domains) >= spread.least_domains
        least = min(counts.values(), default=0) if every else 0
        return (
            counted,
            domains,
            counts,
            least + spread.most_skew - spread.pods.matches(pod.namespace, pod.labels),
        )

    def _counted(self, pod: Pod, spread: Spread) -> ByNode:
        """Return the pods that a constraint counts; with an empty selector none, though the pod itself matches it (podtopologyspread, `countPodsMatchSelector`)."""
        return self._placed.matching(spread.pods, pod) if spread.pods.labels else {}

    def _around(self, key: str | None, there: ByNode, goes: Goes | None = None) -> frozenset[str]:
        """Return the nodes in the same domains as these pods, but those from whose own node all of them go."""
        leaving = {
            name for name, uids in there.items() if goes is not None and self._placed.all_go(uids, goes)
        }
        if key is None:
            return frozenset(there.keys() - leaving)
        return self._domains.around(key, there, leaving)


def _together(against: Iterable[tuple[str, str | None, ByNode]]) -> Iterator[tuple[str, str | None, ByNode]]:
    """Yield the pods of all terms about one label at once: each is asked once whether it goes."""
    found: dict[tuple[str, str | None], dict[str, set[str]]] = {}
    for reason, key, there in against:
        nodes = found.setdefault((reason, key), {})
        for name, uids in there.items():
            nodes.setdefault(name, set()).update(uids)
    for (reason, key), nodes in found.items():
        yield reason, key, nodes


def are_related(pods: Iterable[Pod]) -> bool:
    """Say whether any pod asks something of its neighbours; most do not."""
    return any(pod.relations is not NO_RELATIONS for pod in pods)


def are_related_beyond_a_node(pods: Iterable[Pod]) -> bool:
    """Say whether any pod asks something of pods on other nodes: that they are in its domain, or are not, or not too many."""
    return any(
        pod.relations.affinity
        or pod.relations.spread
        or any(term.topology_key != HOSTNAME for term in pod.relations.anti_affinity)
        for pod in pods
    )


def are_apart(one: Pod, other: Pod, selects: Callable[[PodSelection, Pod], bool]) -> bool:
    """Say whether two pods cannot be on one node: one of them shuns the other, or both take a port of it; `selects` as `is_company` has it."""
    shunned = [
        selects(term.pods, there)
        for here, there in ((one, other), (other, one))
        for term in here.relations.anti_affinity
    ]
    return any(shunned) or matches(one.relations.ports, other)
