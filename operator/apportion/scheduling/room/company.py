"""Company: which of some pods that go to one node others of them need there (required pod affinity).

In: pods. Out: an order in which each can be placed. Rule: k8s.io/kubernetes pkg/scheduler/framework/plugins/interpodaffinity, `satisfyPodAffinity`: a pod that
is on a node is company for those that match it with all of their terms; among equal pods the first needs none.
"""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from apportion.dra.pod import Pod
from apportion.dra.podrelations import PodSelection


def _may_select(asked: PodSelection, pod: Pod) -> bool:
    return asked.matches(pod.namespace, pod.labels)


def is_company(other: Pod, pod: Pod, selects: Callable[[PodSelection, Pod], bool] = _may_select) -> bool:
    """Say whether a pod needs company, and another one would be that.

    `selects` says whether a pod is selected (`NamespaceIndex.selects`); without it any namespace counts as chosen by its labels.
    """
    terms = pod.relations.affinity
    return bool(terms) and all(selects(term.pods, other) for term in terms)


def kind_of(pod: Pod) -> object:
    """Return what the rules about pods beside each other read of a pod: they treat pods alike in which it is equal."""
    return pod.namespace, tuple(sorted(pod.labels.items())), pod.relations, pod.volumes


def in_order(pods: Sequence[Pod]) -> Sequence[Pod]:
    """Return the pods, each behind those of them that are its company, as far as that goes; equal ones stay together, in their order."""
    if not any(pod.relations.affinity for pod in pods):
        return pods
    kinds: dict[object, list[Pod]] = {}
    for pod in pods:
        kinds.setdefault(kind_of(pod), []).append(pod)
    rows, ordered = list(kinds.values()), list[Pod]()
    awaited = [
        {at for at, other in enumerate(rows) if other is not row and is_company(other[0], row[0])}
        if row[0].relations.affinity
        else set[int]()
        for row in rows
    ]
    left = dict.fromkeys(range(len(rows)))
    free = [at for at in left if not awaited[at]]
    while left:
        found = heappop(free) if free else next(iter(left))
        del left[found]
        ordered += rows[found]
        for at in left:
            if found in awaited[at]:
                awaited[at].remove(found)
                if not awaited[at]:
                    heappush(free, at)
    return ordered
