"""Waiting: what wants devices now.

Demands (claims and pods that belong together, with the allocated claims that tie them to a node), their places in the queue;
and the claims and pods that cannot be served as they are.

A pod is ready when our gate is its only one. It is served when a scheduler that we
know will bind it. Claims that several ready pods share join these pods into one
demand; a pod that comes later finds the claim allocated and is tied to its node.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeAlias

from apportion.api import duration
from apportion.api.contract import ALLOCATION_FINALIZER, GATE, KEEP_FOR
from apportion.api.policy import QueueOrder
from apportion.cluster.managedclasses import ManagedClasses
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import PROTECTION_FINALIZER, Claim
from apportion.dra.excess import PodExcess
from apportion.dra.pod import Pod
from apportion.errors import BrokenInput

IMMEDIATE = "Immediate"
MOST_PODS = 256
"""Pods of a demand: a claim is reserved for as many at most (resource.k8s.io, `ResourceClaimReservedForMaxSize`), and few nodes run so many (110 where
nobody says otherwise, kubelet `maxPods`)."""
MOST_CLAIMS = 64
"""Claims of a demand, all of whose devices are on one node: eight GPUs in seven partitions each are 56. To place claims together takes work that grows
with their square, in one step; the API has no limit for the claims of a pod."""

MOST_KINDS = 16
"""Kinds of pods of a demand, by what they ask of their node: each is compared with all nodes, and before anybody else is served."""
MOST_LOOKS = 128
"""What pods of a demand ask of the pods there, each once, by `PodRelations.looks`: as much as a pod may have by itself."""


@dataclass(frozen=True, slots=True)
class WaitingDemand:
    """One demand: all of its claims are allocated on one node, or none."""

    claims: tuple[Claim, ...]
    """Managed claims without an allocation, in a stable order."""
    pods: tuple[Pod, ...] = ()
    """Ready pods that name them; none for a claim that is allocated without a pod."""
    tied: tuple[Claim, ...] = ()
    """Allocated claims of these pods: the rest has to go to the same node."""
    asked: tuple[Claim, ...] = ()
    """The claims as the allocator is asked about them: what their configuration needs is said by selectors, too."""
    key: str = field(default="", compare=False, repr=False)
    """Stays the same as long as the same claims wait; a part of a demand has that of the whole, which backs off with it."""
    priority: int = field(init=False, compare=False, repr=False)
    """The highest priority among the pods."""
    since: str = field(init=False, compare=False, repr=False)
    """When the oldest of its objects was created (RFC 3339)."""

    members: Mapping[str, Pod] = field(init=False, compare=False, repr=False)
    """A pod of each of its pod groups, by name."""

    def __post_init__(self) -> None:
        """Compute once what every pass reads of every demand."""
        put = object.__setattr__
        put(self, "asked", self.asked or self.claims)
        put(self, "members", {pod.group.name: pod for pod in self.pods if pod.group is not None})
        put(self, "key", self.key or min([claim.uid for claim in self.claims]))
        put(self, "priority", max([pod.priority for pod in self.pods], default=0))
        put(self, "since", min([pod.created for pod in self.pods] + [claim.created for claim in self.claims]))


@dataclass(frozen=True, slots=True)
class MixedClasses:
    """A claim that names managed and other classes; nobody can allocate it."""

    claim: Claim
    managed: frozenset[str]
    others: frozenset[str]


@dataclass(frozen=True, slots=True)
class UnknownClasses:
    """A claim of a pod behind our gate that names classes which do not exist."""

    claim: Claim
    classes: frozenset[str]
    known: frozenset[str]
    """Those that exist."""


@dataclass(frozen=True, slots=True)
class UnknownScheduler:
    """A pod with claims of ours whose scheduler we do not know: perhaps nobody would ever bind it."""

    pod: Pod
    known: frozenset[str]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A pod that is no part of a demand although it could start: it names more claims than a demand may have, or more pods hang together with it, which go first."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class TooManyTerms:
    """A pod that asks more of its node, or of the pods beside it, than is evaluated."""

    pod: Pod
    excess: PodExcess


@dataclass(frozen=True, slots=True)
class RefusedConfiguration:
    """A claim whose devices no agent of ours would set up as it asks, and the pods that wait for it."""

    claim: Claim
    pods: tuple[Pod, ...]
    error: BrokenInput


UnservablePod: TypeAlias = UnknownScheduler | LeftOut | TooManyTerms
"""A pod that cannot be served as it is."""
Unservable: TypeAlias = MixedClasses | UnknownClasses | UnservablePod | RefusedConfiguration
"""What cannot be served as it is."""


def immediate(claim: Claim) -> bool:
    """Say whether the claim is to be allocated without a pod (our annotation)."""
    return claim.annotations.get(GATE) == IMMEDIATE


def is_kept(claim: Claim) -> bool:
    """Say whether the claim keeps its devices between pods: for ever, or for a time (our annotations)."""
    return immediate(claim) or KEEP_FOR in claim.annotations


def finalizer_of(claim: Claim) -> str:
    """Return the finalizer that we write to a claim with its allocation, which keeps it until its devices are free."""
    return ALLOCATION_FINALIZER if is_kept(claim) else PROTECTION_FINALIZER


def kept_for(claim: Claim) -> timedelta | None:
    """Return for how long the claim keeps its devices between pods; None: it says nothing of it. Raises BrokenInput."""
    text = claim.annotations.get(KEEP_FOR)
    if text is None:
        return None
    try:
        return duration.parse(text)
    except ValueError as error:
        raise BrokenInput(str(error), field=f"metadata.annotations[{KEEP_FOR}]") from None


def is_others(claim: Claim, snapshot: Snapshot) -> bool:
    """Say whether a claim without devices gets them from kube-scheduler.

    A class that does not exist yet may become ours (a layout makes it), and a claim that mixes classes can be allocated by nobody. Of a
    claim that has its devices nobody asks for the classes any more.
    """
    managed = snapshot.managed
    return not (managed.owns(claim) or managed.mixes(claim) or managed.unknown(claim))


def has_devices(claim: Claim, snapshot: Snapshot) -> bool:
    """Say whether a claim has its devices, or gets them from kube-scheduler once its pod has no gate."""
    return claim.allocation is not None or is_others(claim, snapshot)


def ready(pod: Pod) -> bool:
    """Say whether the pod is live and has no gate but ours."""
    return not pod.finished and not pod.deleting and all(gate == GATE for gate in pod.gates)


def claims_of(pod: Pod, snapshot: Snapshot) -> tuple[Claim, ...] | None:
    """Return the pod's claims; None while one is missing, being deleted, or owned by another pod of the same name."""
    found = []
    for claim in snapshot.named_claims(pod):
        if claim is None or not is_usable(claim, pod):
            return None
        found.append(claim)
    return tuple(found)


def is_usable(claim: Claim, pod: Pod) -> bool:
    """Say whether a pod that names a claim can start with it: it is not being deleted, nor owned by another pod of the same name."""
    return not claim.deleting and claim.owner_pod in (None, pod.uid)


def is_current(demand: WaitingDemand, snapshot: Snapshot) -> bool:
    """Say whether a demand still waits as it did when the queue was made."""
    return (
        all(
            snapshot.claims.get(claim.uid) is claim
            and snapshot.allocation(claim) is None
            and snapshot.managed.owns(claim)
            for claim in demand.claims
        )
        and all(snapshot.pods.get(pod.uid) is pod for pod in demand.pods)
        and all(
            snapshot.claims.get(claim.uid) is claim and snapshot.allocation(claim) is not None
            for claim in demand.tied
        )
    )


def priority_of(demand: WaitingDemand, managed: ManagedClasses) -> int:
    """Return the priority that counts in the queue."""
    if demand.priority and managed.policy(demand.claims[0]).queue.order == QueueOrder.FIFO:
        return 0
    return demand.priority


Row: TypeAlias = tuple[tuple[int, str, str], WaitingDemand]
"""The place of a demand in the queue, which no other has, and the demand."""


def place_of(demand: WaitingDemand, managed: ManagedClasses) -> tuple[int, str, str]:
    """Return where a demand belongs in the queue; no two are equal."""
    return -priority_of(demand, managed), demand.since, demand.key
