"""Foreign claims: what kube-scheduler allocates for a pod beside our claims.

In: a pod, the snapshot. Out: its claims that are not ours and have no devices, and those for extended resources behind which there is a DeviceClass.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeAlias

from apportion.allocator.allocate import catching_up, is_slow, serving
from apportion.allocator.demand import Demand
from apportion.allocator.terms import DEFAULT_TERMS
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.node import Node
from apportion.dra.pod import Pod
from apportion.errors import BrokenInput
from apportion.scheduling.demands.extendedresources import as_claim, backed
from apportion.scheduling.demands.podneeds import is_allocated
from apportion.scheduling.pace import Pace

Turns: TypeAlias = Callable[[Iterator[object]], Iterator[None]]
"""Does the steps of a search, as long as it is somebody's turn."""


def foreign_claims(pod: Pod, snapshot: Snapshot) -> tuple[Claim, ...]:
    """Return the pod's claims that kube-scheduler allocates."""
    managed = snapshot.managed
    return tuple(
        claim
        for claim in snapshot.named_claims(pod)
        if claim is not None
        and claim.allocation is None
        and not managed.owns(claim)
        and not managed.unknown(claim)
    )


def has_foreign(pod: Pod, snapshot: Snapshot) -> bool:
    """Say whether kube-scheduler allocates anything for a pod."""
    return bool(foreign_claims(pod, snapshot) or backed(pod, snapshot.managed))


def foreign_claims_on(
    pod: Pod, allowed: frozenset[str], known: Mapping[str, Node], snapshot: Snapshot
) -> Iterator[tuple[tuple[Claim, ...], frozenset[str]]]:
    """Yield the claims for which kube-scheduler looks for devices on these nodes, and the nodes where it looks for just these.

    For an extended resource it does so where no device plugin offers it. `known`: the nodes by name.
    """
    claims, resources = foreign_claims(pod, snapshot), backed(pod, snapshot.managed)
    if not claims and not resources:
        return
    by_resources: dict[tuple[str, ...], set[str]] = {}
    for name in allowed if resources else ():
        there = tuple(each for each in resources if is_allocated(each, known[name], resources))
        by_resources.setdefault(there, set()).add(name)
    if not resources and allowed:
        by_resources[()] = set(allowed)
    for there, nodes in by_resources.items():
        asked = tuple(as_claim(pod, each, resources[each]) for each in there)
        if claims or asked:
            yield (*claims, *asked), frozenset(nodes)


def without_turns(search: Iterator[object]) -> Iterator[None]:
    """Do all of its steps."""
    for _ in search:
        yield


def foreign_ahead(
    pods: Collection[Pod], known: Mapping[str, Node], snapshot: Snapshot, turns: Turns
) -> Iterator[None]:
    """Search all nodes for what kube-scheduler allocates for these pods, so that `serving` searches none; yields where others may run.

    `turns`: says for how long nodes are searched; what it raises ends the search.
    """
    state, pace = snapshot.state, Pace()
    for pod in pods:
        if pace.rests(len(pod.claims) or 1):
            yield
        if not has_foreign(pod, snapshot):
            continue  # as most: all nodes would be gone through for nothing
        for claims, _ in foreign_claims_on(pod, frozenset(known), known, snapshot):
            asked = Demand(claims)
            try:
                if is_slow(state, asked, DEFAULT_TERMS):
                    yield from turns(catching_up(state, asked, DEFAULT_TERMS))
                serving(state, asked)
            except BrokenInput:
                pass  # met again when the nodes are asked for
            yield
