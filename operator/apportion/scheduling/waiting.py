"""Waiting: what wants devices now.

In: the snapshot. Out: demands (pods and claims that hang together, with what already ties them to a node), in queue
order; and the claims that are asked for but cannot be served as they are.

A pod is ready when our gate is the last one. Claims that several ready pods share join these pods into one demand;
a pod that comes later finds the claim allocated and is tied to its node.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from apportion.api.contract import GATE
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod

IMMEDIATE = "Immediate"


@dataclass(frozen=True, slots=True)
class Waiting:
    """One demand: all of its claims are served on one node, or none."""

    claims: tuple[Claim, ...]
    """Managed claims without an allocation, in a stable order."""
    pods: tuple[Pod, ...] = ()
    """Ready pods that need them; none for a claim that is allocated without a pod."""
    tied: tuple[Claim, ...] = ()
    """Claims of these pods that are allocated already; they say where the rest can go."""

    @property
    def key(self) -> str:
        """Stays the same as long as the same claims wait."""
        return min(claim.uid for claim in self.claims)

    @property
    def priority(self) -> int:
        """The highest priority among the pods."""
        return max((pod.priority for pod in self.pods), default=0)

    @property
    def since(self) -> str:
        """When the oldest of them was made (RFC 3339)."""
        return min([pod.created for pod in self.pods] + [claim.created for claim in self.claims])


@dataclass(frozen=True, slots=True)
class Mixed:
    """A claim that names managed and other classes; it is left alone."""

    claim: Claim
    managed: frozenset[str]
    others: frozenset[str]


@dataclass(frozen=True, slots=True)
class Unknown:
    """A claim that a pod behind our gate wants, and that names classes which do not exist."""

    claim: Claim
    classes: frozenset[str]


def immediate(claim: Claim) -> bool:
    """Say whether the claim is to be allocated without a pod."""
    return claim.annotations.get(GATE) == IMMEDIATE


def ready(pod: Pod) -> bool:
    """Say whether the pod waits for nobody but us."""
    return not pod.finished and not pod.deleting and all(gate == GATE for gate in pod.gates)


def claims_of(pod: Pod, snapshot: Snapshot) -> tuple[Claim, ...] | None:
    """Return the pod's claims; None while one is missing, going away, or a namesake of another pod's."""
    found = []
    for entry in pod.claims:
        if entry.needless:
            continue
        claim = snapshot.claim(pod.namespace, entry.claim) if entry.claim else None
        if claim is None or claim.deleting or claim.owner_pod not in (None, pod.uid):
            return None
        found.append(claim)
    return tuple(found)


def waiting(snapshot: Snapshot) -> tuple[list[Waiting], list[Mixed | Unknown]]:
    """Return all demands, first come first, those of higher priority before, and the claims that nobody can serve."""
    manage = snapshot.management
    demands: list[Waiting] = []
    hopeless: list[Mixed | Unknown] = []
    seen: set[str] = set()
    for claim in snapshot.claims_of(snapshot.claim_index.unallocated):
        if claim.uid in seen or snapshot.allocation(claim) is not None:
            continue
        parts = manage.mixes(claim)
        if parts is not None:
            hopeless.append(Mixed(claim, *parts))
            continue
        if not manage.owns(claim):
            missing = manage.unknown(claim)
            if missing and (immediate(claim) or any(GATE in pod.gates for pod in snapshot.users(claim))):
                hopeless.append(Unknown(claim, missing))
            continue
        demand = _component(claim, snapshot)
        if demand is not None:
            seen.update(each.uid for each in demand.claims)
            demands.append(demand)
    demands.sort(key=lambda d: (-d.priority, d.since, d.key))
    return demands, hopeless


def _component(start: Claim, snapshot: Snapshot) -> Waiting | None:
    """Collect the pods and claims that hang together with a claim."""
    manage = snapshot.management
    claims: dict[str, Claim] = {}
    tied: dict[str, Claim] = {}
    pods: dict[str, Pod] = {}
    todo = [start]
    while todo:
        claim = todo.pop()
        if claim.uid in claims or claim.uid in tied:
            continue
        if snapshot.allocation(claim) is not None:
            tied[claim.uid] = claim
            continue
        if not manage.owns(claim):
            continue  # the scheduler's business
        claims[claim.uid] = claim
        for pod, others in _ready_users(claim, snapshot):
            if pod.uid not in pods:
                pods[pod.uid] = pod
                todo.extend(others)
    if not pods and not immediate(start):
        return None
    ordered = tuple(sorted(claims.values(), key=lambda c: (c.created, c.key)))
    return Waiting(
        claims=ordered,
        pods=tuple(sorted(pods.values(), key=lambda p: p.uid)),
        tied=tuple(sorted(tied.values(), key=lambda c: c.key)),
    )


def _ready_users(claim: Claim, snapshot: Snapshot) -> Iterator[tuple[Pod, tuple[Claim, ...]]]:
    for pod in snapshot.users(claim):
        if ready(pod):
            others = claims_of(pod, snapshot)
            # A pod with a claim that mixes classes can never start: serving its other claims would waste them.
            if others is not None and not any(snapshot.management.mixes(other) for other in others):
                yield pod, others
