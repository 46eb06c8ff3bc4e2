"""PlacedPods: the pods on nodes, bound, sent there by an allocation, or placed there by a decision in the making, by what they match.

In: the snapshot with its pods, members of a group that are placed, and not granted yet. Out: the pods of each node that match a selection or take a host port, and
those that shun others. Pods that match a selection are counted once, and then as they change.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from apportion.allocator.changelog import ChangeLog
from apportion.cluster.snapshot import Snapshot
from apportion.dra.pod import Pod
from apportion.dra.podrelations import HostPort, PodSelection, PodTerm

MOST_COUNTED = 256
"""Selections of pods that are counted; the oldest is dropped."""

Goes: TypeAlias = Callable[[Pod], bool]
"""Says of a pod that it would leave its node for another one that goes there."""
ByNode: TypeAlias = Mapping[str, Collection[str]]
"""Pods (UIDs) by their node."""
Key: TypeAlias = PodSelection | tuple[HostPort, ...]
"""What pods match: a selection, or host ports of which they take one."""


@dataclass(slots=True)
class _Counted:
    """Pods that match, by node."""

    cursor: tuple[int, int] = (-1, -1)
    pods: dict[str, str] = field(default_factory=dict)
    """Node by pod (UID)."""
    nodes: dict[str, dict[str, None]] = field(default_factory=dict)
    """Pods (UIDs) by node."""

    def put(self, uid: str, node: str | None) -> None:
        before = self.pods.pop(uid, None)
        if before is not None:
            del self.nodes[before][uid]
            if not self.nodes[before]:
                del self.nodes[before]
        if node is not None:
            self.pods[uid] = node
            self.nodes.setdefault(node, {})[uid] = None


class PlacedPods:
    """Pods by their node."""

    def __init__(
        self, snapshot: Snapshot, node_of: Callable[[Pod], str | None], doubted: ChangeLog[str]
    ) -> None:
        """`node_of` returns the node to which a pod is bound or sent; `doubted`: pods (UIDs) of which that may have changed though they did not."""
        self._snapshot = snapshot
        self._node_of = node_of
        self._doubted = doubted
        self._counted: dict[Key, _Counted] = {}
        self._averse = -1, -1
        """How far the changes of pods were read for anti-affinity."""
        self._terms: dict[PodTerm, dict[str, None]] = {}
        """Anti-affinity of pods on nodes: the pods (UIDs) by term."""
        self._averse_pods: dict[str, tuple[PodTerm, ...]] = {}
        self._placed: dict[str, str] = {}
        """Where pods (UIDs) are counted that nobody has sent to a node yet."""
        self._gone: frozenset[str] = frozenset()
        """Pods (UIDs) that are counted nowhere for the moment."""

    def place(self, pod: Pod, node: str | None) -> None:
        """Count a pod on a node though nobody has sent it there yet; None: no longer."""
        if node is not None:
            self._placed[pod.uid] = node
        else:
            self._placed.pop(pod.uid, None)
        self._recount(pod)

    @contextmanager
    def without(self, pods: Collection[Pod]) -> Generator[None]:
        """Count these pods nowhere within a block."""
        self._gone = frozenset(pod.uid for pod in pods)
        try:
            for pod in pods:
                self._recount(pod)
            yield
        finally:
            self._gone = frozenset()
            for pod in pods:
                self._recount(pod)

    def _recount(self, pod: Pod) -> None:
        for key, counted in self._counted.items():
            if pod.uid in counted.pods or matches(key, pod):
                counted.put(pod.uid, self._where(pod.uid))
        if pod.relations.anti_affinity:
            self._put_averse(pod.uid)

    def going(self, pods: Iterable[str], goes: Goes) -> int:
        """Return how many of these pods (UIDs) go; those that are only placed here stay."""
        known = (self._snapshot.pods.get(uid) for uid in pods if uid not in self._placed)
        return sum(pod is not None and goes(pod) for pod in known)

    def matching(self, key: Key, but: Pod) -> ByNode:
        """Return the pods that match on each node, without one pod."""
        counted = self._counted.get(key)
        if counted is None:
            if len(self._counted) >= MOST_COUNTED:
                del self._counted[next(iter(self._counted))]
            counted = self._counted[key] = _Counted()
        counted.cursor, changed = self._since(counted.cursor)
        pods = self._snapshot.pods
        for uid in {*pods, *counted.pods} if changed is None else changed:
            pod = pods.get(uid)
            node = self._where(uid) if pod is not None and matches(key, pod) else None
            counted.put(uid, node)
        own = counted.pods.get(but.uid)
        if own is None:
            return counted.nodes
        others = {**counted.nodes, own: counted.nodes[own].keys() - {but.uid}}
        return {node: pods for node, pods in others.items() if pods}

    def shunning(self, pod: Pod) -> Iterator[tuple[str, ByNode]]:
        """Yield the pods that shun a pod, with the key of the label in whose value they do."""
        for term, owners in self._averse_terms().items():
            if term.pods.matches(pod.namespace, pod.labels):
                there: dict[str, set[str]] = {}
                for uid in owners:
                    if uid != pod.uid and (node := self._where(uid)) is not None:
                        there.setdefault(node, set()).add(uid)
                yield term.topology_key, there

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
        if pod is None or pod.finished or uid in self._gone:
            return None
        return self._node_of(pod) or self._placed.get(uid)


def matches(key: Key, pod: Pod) -> bool:
    """Say whether a pod is selected, or takes one of these ports."""
    if isinstance(key, PodSelection):
        return key.matches(pod.namespace, pod.labels, deleting=pod.deleting)
    return any(one.conflicts(taken) for one in key for taken in pod.relations.ports)
