"""Components: the claims and pods that hang together, and the demand that they make.

In: a claim that waits, the snapshot. Out: a demand of the ready pods that name the claim, of their claims, of the pods that name those, and so
on; and the pods that it leaves out. Of more pods or claims than one node could serve some are chosen: the others are tied to these by claims
that they share, so that they are looked at once those have their devices. All are looked at in steps.
"""

from collections.abc import Generator
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import TypeAlias

from apportion.allocator.facts.host import HostResources
from apportion.api.claimconfig import as_asked
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.excess import excess_of
from apportion.dra.pod import Pod
from apportion.scheduling.demands.podneeds import constraints_of
from apportion.scheduling.demands.waiting import (
    MOST_CLAIMS,
    MOST_KINDS,
    MOST_LOOKS,
    MOST_PODS,
    LeftOut,
    TooManyTerms,
    UnknownScheduler,
    UnservablePod,
    WaitingDemand,
    claims_of,
    has_devices,
    immediate,
    ready,
)
from apportion.scheduling.pace import Pace

_Member: TypeAlias = tuple[Pod, tuple[Claim, ...]]
"""A pod that can start once its claims are allocated, and these claims."""


@dataclass(frozen=True, slots=True)
class Component:
    """Claims that hang together."""

    demand: WaitingDemand | None
    """What is to be served first of it; None: no pod can start, and none of the claims is allocated without one."""
    claims: tuple[Claim, ...]
    """All that wait."""
    tied: tuple[Claim, ...]
    """Allocated claims of its pods."""
    left_out: tuple[UnservablePod, ...]


@dataclass(slots=True)
class _Hanging:
    """What was found so far, by UID."""

    claims: dict[str, Claim] = field(default_factory=dict)
    tied: dict[str, Claim] = field(default_factory=dict)
    pods: dict[str, _Member] = field(default_factory=dict)
    left_out: list[UnservablePod] = field(default_factory=list)


def component_of(start: Claim, snapshot: Snapshot, pace: Pace) -> Generator[None, None, Component]:
    """Return what hangs together with a claim of ours that waits; yields by the `pace`."""
    found = yield from _hanging(start, snapshot, pace)
    claims, tied, pods = found.claims, found.tied, found.pods
    named = claims.keys() | tied.keys()
    too_many = len(pods) > MOST_PODS or len(claims) > MOST_CLAIMS
    if too_many or (len(pods) > 1 and (yield from _are_too_unlike(found, pace))):
        pods = yield from _chosen(found, pace)
        named = {claim.uid for _, own in pods.values() for claim in own}
        found.left_out += [LeftOut(pod) for uid, (pod, _) in found.pods.items() if uid not in pods]
    demand = None
    ordered = tuple(sorted((claims[uid] for uid in claims.keys() & named), key=lambda c: (c.created, c.key)))
    if ordered and (pods or immediate(start)):
        demand = WaitingDemand(
            claims=ordered,
            pods=tuple(sorted((pod for pod, _ in pods.values()), key=lambda p: p.uid)),
            tied=tuple(sorted((tied[uid] for uid in tied.keys() & named), key=lambda c: c.key)),
            asked=tuple(as_asked(claim, snapshot.state.classes, snapshot.drivers) for claim in ordered),
        )
    return Component(demand, tuple(claims.values()), tuple(tied.values()), tuple(found.left_out))


def _hanging(start: Claim, snapshot: Snapshot, pace: Pace) -> Generator[None, None, _Hanging]:
    """Return the claim, the ready pods that name it, their claims, the pods that name those, and so on."""
    managed, found = snapshot.managed, _Hanging()
    looked: set[str] = set()
    """Pods (UIDs) that were looked at: one may name many of the claims."""
    todo = [start]
    while todo:
        claim = todo.pop()
        if claim.uid in found.claims or claim.uid in found.tied:
            continue
        if snapshot.allocation(claim) is not None:
            found.tied[claim.uid] = claim
            continue
        if not managed.owns(claim):
            continue  # kube-scheduler allocates it
        found.claims[claim.uid] = claim
        for pod in snapshot.users(claim):
            if pace.rests():
                yield
            if pod.uid in looked or not ready(pod):
                continue
            looked.add(pod.uid)
            if pod.node is None and pod.scheduler not in snapshot.schedulers:
                found.left_out.append(UnknownScheduler(pod, snapshot.schedulers))
                continue
            if pod.node is None and (excess := excess_of(pod)) is not None:
                found.left_out.append(TooManyTerms(pod, excess))
                continue
            if pod.unread_claims:
                found.left_out.append(LeftOut(pod))
                continue
            if pace.rests(len(pod.claims)):
                yield
            others = _startable(pod, snapshot)
            if others is not None:
                found.pods[pod.uid] = pod, others
                todo.extend(others)
    return found


@dataclass(slots=True)
class _Kinds:
    """How much pods differ in what they ask of their node, and of the pods there."""

    kinds: set[object] = field(default_factory=set)
    asked: set[object] = field(default_factory=set)
    looks: int = 0

    def add(self, pod: Pod) -> bool:
        """Count a pod that has no node; says whether it is no more than a demand may have, and counts it only then."""
        if pod.node is not None:
            return True
        kind, asked = constraints_of(pod), (pod.relations, tuple(sorted(pod.labels.items())))
        more = 0 if asked in self.asked else pod.relations.looks
        if (kind not in self.kinds and len(self.kinds) >= MOST_KINDS) or self.looks + more > MOST_LOOKS:
            return False
        self.kinds.add(kind)
        self.looks += more
        if more:
            self.asked.add(asked)
        return True


def _are_too_unlike(hanging: _Hanging, pace: Pace) -> Generator[None, None, bool]:
    """Say whether the pods differ in more than a demand may have."""
    kinds = _Kinds()
    for pod, _ in hanging.pods.values():
        if pace.rests():
            yield
        if not kinds.add(pod):
            return True
    return False


def _chosen(hanging: _Hanging, pace: Pace) -> Generator[None, None, dict[str, _Member]]:
    """Return as many of the pods as a demand may have: one of each kind, so that none waits behind others that no node takes, then small ones before large ones."""
    rows, kinds = [], dict[object, tuple[bool, HostResources, str, str]]()
    for pod, _ in hanging.pods.values():
        if pace.rests():
            yield
        row = pod.node is None, HostResources.of(pod.requests), pod.created, pod.uid
        rows.append(row)
        kind = constraints_of(pod)
        kinds[kind] = min(kinds.get(kind, row), row)
    found: dict[str, _Member] = {}
    named, unlike = set[str](), _Kinds()
    for *_, uid in dict.fromkeys((*nsmallest(MOST_PODS, kinds.values()), *nsmallest(MOST_PODS, rows))):
        pod, claims = hanging.pods[uid]
        if pace.rests(len(claims)):
            yield
        own = {claim.uid for claim in claims if claim.uid in hanging.claims}
        if len(found) < MOST_PODS and len(named | own) <= MOST_CLAIMS and unlike.add(pod):
            found[uid] = pod, claims
            named |= own
    return found


def _startable(pod: Pod, snapshot: Snapshot) -> tuple[Claim, ...] | None:
    """Return the claims of a ready pod that can start once they are allocated; None: it cannot."""
    found, managed = claims_of(pod, snapshot), snapshot.managed
    # A pod with a claim that nobody can allocate does not start: serving its other claims would waste them.
    if found is None or not all(managed.owns(each) or has_devices(each, snapshot) for each in found):
        return None
    return found
