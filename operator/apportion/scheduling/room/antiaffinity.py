"""AntiAffinity: the required anti-affinity of pods on nodes, by term: which of them shun a pod.

In: pods that have terms, as they come and go; a pod. Out: those that shun it, by the key of the label in whose value they do. A pod on a node may have
thousands of terms, as nobody bounds those of a pod without claims: they are compared once with pods of equal labels.
"""

from collections.abc import Iterable, Iterator, Mapping

from apportion.cluster.indexes.namespaceindex import NamespaceIndex
from apportion.dra.pod import Pod
from apportion.dra.podrelations import PodTerm
from apportion.dra.selectionindex import SelectionIndex
from apportion.scheduling.pace import Pace

MOST_KINDS = 64
"""Kinds of pods for which the terms are kept that select them."""


class AntiAffinity:
    """Terms, with the pods that have them."""

    def __init__(self, namespaces: NamespaceIndex) -> None:
        self._namespaces = namespaces
        self._pods: dict[str, tuple[PodTerm, ...]] = {}
        """Terms by pod (UID)."""
        self._terms: dict[PodTerm, dict[str, None]] = {}
        """Pods (UIDs) by term."""
        self._index: SelectionIndex[PodTerm] = SelectionIndex()
        """The same terms."""
        self._selecting: dict[object, list[tuple[str, Mapping[str, None]]]] = {}
        """Of those that select pods of a kind the label's key and the pods, for some kinds, as long as the terms are the same."""
        self._shunning: dict[object, Mapping[str, Mapping[str, None]]] = {}
        """The same pods by that key, for some of these kinds, as long as their terms are the same."""

    @property
    def pods(self) -> Iterable[str]:
        """Return the pods (UIDs) that have terms."""
        return self._pods.keys()

    def put(self, pod: str, terms: tuple[PodTerm, ...]) -> None:
        """Replace the terms of a pod (UID); none: it is on no node, or has none."""
        before = self._pods.get(pod, ())
        if before == terms:
            return
        self._shunning.clear()
        for term in dict.fromkeys(before):
            self._terms[term].pop(pod)
            if not self._terms[term]:
                del self._terms[term]
                self._index.drop(term)
                self._selecting = {}
        for term in dict.fromkeys(terms):
            if term not in self._terms:
                self._index.put(term, term.pods)
                self._selecting = {}
            self._terms.setdefault(term, {})[pod] = None
        if terms:
            self._pods[pod] = terms
        else:
            del self._pods[pod]

    def steps(self, pod: Pod, pace: Pace) -> Iterator[None]:
        """Find the terms that select a pod; yields by the `pace`, and finds nothing if they change meanwhile."""
        kind = self._kind(pod)
        if kind in self._selecting:
            return
        selecting = self._selecting
        found: list[tuple[str, Mapping[str, None]]] = []
        for term in self._index.around(pod):
            if pace.rests():
                yield
            if self._selecting is not selecting:
                return
            if self._namespaces.selects(term.pods, pod):
                found.append((term.topology_key, self._terms[term]))
        if len(selecting) >= MOST_KINDS:
            oldest = next(iter(selecting))
            del selecting[oldest]
            self._shunning.pop(oldest, None)
        selecting[kind] = found

    def shunning(self, pod: Pod) -> Mapping[str, Iterable[str]]:
        """Return the pods (UIDs) that shun a pod, perhaps with itself, by the key of a label: where its value is that of their own node."""
        for _ in self.steps(pod, Pace()):
            pass
        kind = self._kind(pod)
        if kind not in self._shunning:
            found: dict[str, dict[str, None]] = {}
            for key, pods in self._selecting[kind]:
                found.setdefault(key, {}).update(pods)
            self._shunning[kind] = found
        return self._shunning[kind]

    def _kind(self, pod: Pod) -> object:
        """Return what terms look at in a pod."""
        return pod.namespace, self._namespaces.version(pod.namespace), frozenset(pod.labels.items())
