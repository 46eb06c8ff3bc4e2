"""UnknownMetadata: labels and annotations of apportion that mean nothing where they stand, as one whose name is mistyped.

In: the snapshot. Out: each pod and claim that has some once, with sentences that name the field and what was probably meant. It is served as if they were not there.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Final

from apportion.api.contract import (
    CONSUMERS_CHECKED,
    EXTENDED_RESOURCE,
    GATE,
    KEEP_FOR,
    LAYOUT_LABEL,
    MANAGED,
)
from apportion.api.meant import meant
from apportion.cluster.snapshot import Snapshot
from apportion.dra import groupmembership
from apportion.dra.claim import Claim
from apportion.dra.pod import HCCL_RANK_TABLE, OWN_DOMAIN, RANK_TABLE, Pod
from apportion.dra.runtime import MAX_RUNTIME
from apportion.scheduling.demands.waiting import IMMEDIATE

LABELS: Final = frozenset((groupmembership.GROUP, MANAGED, LAYOUT_LABEL, EXTENDED_RESOURCE))
"""Labels of any object: tools write labels on all that they make."""
OF_GROUPS: Final = frozenset(
    (groupmembership.LEAST, groupmembership.MOST, groupmembership.TOPOLOGY, groupmembership.MODE)
)
"""Annotations of pods of groups."""
OF_PODS: Final = OF_GROUPS | {MAX_RUNTIME, RANK_TABLE, HCCL_RANK_TABLE}
OF_CLAIMS: Final = frozenset((GATE, KEEP_FOR, CONSUMERS_CHECKED))
_NODES_READ = 64
"""Nodes whose labels are looked at for one that was probably meant."""
_AT_ONCE = 1
"""Pods, and claims, that are looked at in one pass: nobody waits for what is said of them."""
_MOST_SAID = 4
"""Sentences about one object: it may have thousands of annotations."""
_MOST_REPORTED = 10_000
"""Objects that are remembered; beyond it those that are gone are forgotten."""


class UnknownMetadata:
    """Follows the pods and claims that changed."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._pods = self._claims = -1
        """How far the changes of pods and of claims were read."""
        self._changed_pods: dict[str, None] = {}
        """UIDs of pods to look at, what changed last at the end."""
        self._changed_claims: dict[tuple[str, str], None] = {}
        """Namespaces and names of claims to look at, in the same order."""
        self._reported: dict[str, tuple[str, ...]] = {}
        """What was said of an object, by UID."""

    def new(self) -> Iterator[tuple[Pod | Claim, tuple[str, ...]]]:
        """Yield pods and claims of which something is to be said that was not said yet, what changed last first; some are left for later passes."""
        snapshot = self._snapshot
        self._follow()
        known: dict[str, bool] = {}
        for _ in range(min(_AT_ONCE, len(self._changed_pods))):
            pod = snapshot.pods.get(self._changed_pods.popitem()[0])
            if pod is not None and pod.claims and not pod.finished:
                yield from self._news(pod, chain(of_pod(pod), self._topology(pod, known)))
        for _ in range(min(_AT_ONCE, len(self._changed_claims))):
            claim = snapshot.claim(*self._changed_claims.popitem()[0])
            if claim is not None and (claim.annotations or claim.labels):
                used = snapshot.pod_index.has_users(claim.namespace, claim.name)
                yield from self._news(claim, chain(of_claim(claim), _not_immediate(claim) if used else ()))
        if len(self._reported) > _MOST_REPORTED:
            live = snapshot.pods.keys() | snapshot.claims.keys()
            self._reported = {uid: said for uid, said in self._reported.items() if uid in live}

    def _follow(self) -> None:
        snapshot = self._snapshot
        self._pods, pods = snapshot.changes.pods.since(self._pods)
        self._claims, claims = snapshot.changes.claims.since(self._claims)
        if claims is None:
            waiting = snapshot.claims_of(snapshot.claim_index.unallocated)
            claims = [(claim.namespace, claim.name) for claim in waiting]
        self._changed_claims.update(dict.fromkeys(claims))
        self._changed_pods.update(dict.fromkeys(snapshot.pod_index.unbound if pods is None else pods))

    def _topology(self, pod: Pod, known: dict[str, bool]) -> Iterator[str]:
        """Yield that no node has the label that a group names; `known`: whether some node has a label."""
        if groupmembership.TOPOLOGY not in pod.own_annotations or pod.group is None:
            return
        label = pod.group.topology.label if pod.group.topology is not None else ""
        nodes = self._snapshot.nodes.values()
        if label and label not in known:
            known[label] = any(label in node.labels for node in nodes)
        if label and not known[label]:
            labels = {key for node in islice(nodes, _NODES_READ) for key in node.labels}
            yield f"{_at(groupmembership.TOPOLOGY)}: no node has the label {label}{meant(label, labels)}"

    def _news(
        self, found: Pod | Claim, sentences: Iterable[str]
    ) -> Iterator[tuple[Pod | Claim, tuple[str, ...]]]:
        said = tuple(islice(sentences, _MOST_SAID))
        if self._reported.get(found.uid, ()) == said:
            return
        self._reported[found.uid] = said
        if said:
            yield found, said


def of_pod(pod: Pod) -> Iterator[str]:
    """Yield what is to be said of the metadata of a pod."""
    yield from _annotations(pod.own_annotations, "Pod", OF_PODS, {"ResourceClaim": OF_CLAIMS})
    yield from _labels(pod.labels, OF_PODS)
    for key in pod.own_annotations:
        if key in OF_GROUPS and pod.group is None:
            yield f"{_at(key)}: the pod is of no group: it has no label {groupmembership.GROUP}"


def of_claim(claim: Claim) -> Iterator[str]:
    """Yield what is to be said of the metadata of a claim."""
    own = (key for key in claim.annotations if key.startswith(OWN_DOMAIN))
    yield from _annotations(own, "ResourceClaim", OF_CLAIMS, {"Pod": OF_PODS})
    yield from _labels(claim.labels, OF_CLAIMS)


def _not_immediate(claim: Claim) -> Iterator[str]:
    """Yield that a claim does not say Immediate; without pods it would be refused."""
    text = claim.annotations.get(GATE, IMMEDIATE)
    if text != IMMEDIATE:
        yield f"{_at(GATE)}: expected {IMMEDIATE}, not {text[:40]!r}"


def _annotations(
    own: Iterable[str], kind: str, known: frozenset[str], elsewhere: dict[str, frozenset[str]]
) -> Iterator[str]:
    for key in own:
        if key in known:
            continue
        if key in LABELS:
            yield f"{_at(key)}: it is a label: metadata.labels"
        elif other := next((name for name, keys in elsewhere.items() if key in keys), ""):
            yield f"{_at(key)}: it means something on a {other} only"
        else:
            yield f"{_at(key)}: there is no such annotation of a {kind}{meant(key, known)}"


def _labels(labels: Iterable[str], annotations: frozenset[str]) -> Iterator[str]:
    for key in labels:
        if key.startswith(OWN_DOMAIN) and key not in LABELS:
            field = f"metadata.labels[{key}]"
            if key in annotations:
                yield f"{field}: it is an annotation: metadata.annotations"
            else:
                yield f"{field}: there is no such label{meant(key, LABELS)}"


def _at(key: str) -> str:
    return f"metadata.annotations[{key}]"
