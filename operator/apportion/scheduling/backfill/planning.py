"""Planning of one reservation: what `plan_reservation` is asked, with the cpu and memory that pods free and need.

In: a demand or group that was refused, the endings of nodes, the capacity of nodes. Out: where it will fit first.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.gang.members import Member
from apportion.allocator.nodeanswers import COUNTED, NodeAnswers
from apportion.allocator.policyterms import terms_of
from apportion.allocator.reservation import ReservationPlan, plan_reservation
from apportion.api.contract import HELD
from apportion.cluster.snapshot import Snapshot
from apportion.dra.node import Resources
from apportion.dra.pod import Pod
from apportion.errors import BrokenInput
from apportion.scheduling.backfill.heads import Head, members_of
from apportion.scheduling.backfill.nodeendings import Endings, NodeEndings
from apportion.scheduling.backfill.widedevices import WideDevices
from apportion.scheduling.candidates import Candidates, unplaced
from apportion.scheduling.groups import WaitingGroup
from apportion.scheduling.hostcapacity import HostCapacity, Kept
from apportion.scheduling.neighbours import are_apart, are_related
from apportion.scheduling.obstacles import NodeObstacles, Obstacles, holds_devices
from apportion.scheduling.podneeds import total
from apportion.scheduling.waiting import WaitingDemand

MOST_MEMBERS = 256
"""Demands of a group for which devices are reserved."""


def plan(
    head: Head,
    endings: NodeEndings,
    candidates: Candidates,
    snapshot: Snapshot,
    *,
    now: float,
    only: frozenset[str] | None = None,
    known: Decision | None = None,
    answers: NodeAnswers | None = None,
) -> ReservationPlan | None:
    """Return where it will fit first, on the nodes of `only`, or on any; None: nowhere, or its group is too large.

    `known`: what it was to get by a plan of which nothing changed that `basis` compares. `answers`: what was found out by an attempt that was given up.

    Raises BrokenInput if no state could serve a claim as it is written, and Unfinished where so much was asked that others should run.
    """
    demands = members_of(head)
    if len(demands) > MOST_MEMBERS:
        return None
    capacity = candidates.capacity()
    possible: dict[object, tuple[str, ...]] = {}
    members = [_member(head, demand, candidates, snapshot) for demand in demands]
    nodes: list[tuple[str, ...]] = []
    for demand, member in zip(demands, members, strict=True):
        kind = member.kind if member.kind is not None else demand.key
        if kind not in possible:
            possible[kind] = tuple(sorted(candidates.possible(demand, capacity, only, holds_devices)))
        nodes.append(possible[kind])
    state, asked = snapshot.state, [candidates.ask_on(demand, "") for demand in demands]
    queries = [
        state.queries.of(each.claims, state.classes, state.features, each.tolerations) for each in asked
    ]
    wide = WideDevices(snapshot, queries)
    holders = {node: wide.holders(node) for node in sorted({*(n for each in nodes for n in each)})}
    answers = answers or NodeAnswers(keeps=False)
    rows = {
        node: answers.of(
            node,
            "endings",
            partial(endings.of, node, now, others),
            lambda found: COUNTED * len(found.devices),
        )
        for node, others in holders.items()
    }
    # A claim that a pod of the head shares with pods that run keeps its devices, or needs as many, when these have ended.
    tied = {claim.uid for demand in demands for claim in demand.tied}
    if tied:
        rows = {node: found.without(tied) for node, found in rows.items()}
    return plan_reservation(
        snapshot.state,
        {node: found.devices for node, found in rows.items()},
        members,
        _NodeDemands(demands, nodes, rows, candidates, capacity, snapshot),
        enough=head.enough if isinstance(head, WaitingGroup) else 1,
        now=now,
        prefer=candidates.idle,
        known=known,
        wide=any(holders.values()),
        answers=answers,
    )


def circumstances(head: Head, candidates: Candidates) -> object:
    """Return what decides where a head fits, beside devices and room of nodes; None: more than can be compared."""
    if not isinstance(head, WaitingDemand):
        return None  # its members fit beside each other
    shape = candidates.shape(head)
    return None if shape is None else (shape, candidates.ask_on(head, "").excluded)


def basis(found: ReservationPlan, head: Head, candidates: Candidates, snapshot: Snapshot) -> object:
    """Return what decides which devices of its nodes a plan may choose, held or not; None: more than can be compared."""
    state = snapshot.state
    if not isinstance(head, WaitingDemand) or not found.nodes <= state.names().keys():
        return None
    asked = candidates.ask_on(head, "")
    try:
        query = state.queries.of(asked.claims, state.classes, state.features, asked.tolerations)
    except BrokenInput:
        return None
    # A view stays as long as nothing changes that is published of the devices.
    return query, asked.excluded, [state.view(node) for node in found.nodes]


def is_unsettled(found: ReservationPlan, snapshot: Snapshot) -> bool:
    """Say whether what is shown of a plan's devices is about to change: slices are being written anew, or devices are free once kubelet has unprepared them.

    Agents write the slices of a node one after the other, kubelet deletes them at its start, and the claim of a pod that was deleted by
    force may still be prepared (`apportion.dev/held`).
    """
    known = snapshot.state.names()
    if not all(node in known for node in found.nodes):
        return False
    shown = [snapshot.devices.device(result.device) for result in found.results]
    return any(snapshot.state.view(node).incomplete is not None for node in found.nodes) or any(
        device is None or any(taint.key == HELD for taint in device.taints) for device in shown
    )


def awaited(found: ReservationPlan, snapshot: Snapshot) -> list[Pod]:
    """Return the pods that use what a plan waits for."""
    keys = {key: None for place in found.places for key in place.awaited}
    pods = {pod.uid: pod for claim in snapshot.claims_of(keys) for pod in snapshot.users(claim)}
    return sorted(pods.values(), key=lambda pod: pod.key)


def room(found: ReservationPlan, head: Head, snapshot: Snapshot) -> dict[str, Kept]:
    """Return what has to stay free on the nodes of a plan for the pods of its head: their ports, and of resources what does not become free there until they start."""
    members = members_of(head)
    coming: dict[str, list[Pod]] = {}
    ending: dict[str, dict[str, Pod]] = {}
    for place in found.places:
        node = place.decision.node
        coming.setdefault(node, []).extend(unplaced(members[place.member], snapshot))
        ending.setdefault(node, {}).update(
            (pod.uid, pod)
            for claim in snapshot.claims_of(place.awaited)
            for pod in snapshot.users(claim)
            if not pod.finished and pod.node in (None, node)
        )
    kept = {
        node: Kept(
            dict(Counter(total(pods)) - Counter(total([*ending[node].values()]))),
            tuple(port for pod in pods for port in pod.relations.ports),
        )
        for node, pods in coming.items()
    }
    return {node: each for node, each in kept.items() if each.amounts or each.ports}


def _member(head: Head, demand: WaitingDemand, candidates: Candidates, snapshot: Snapshot) -> Member:
    terms = terms_of(snapshot.managed.policy(demand.claims[0]))
    if isinstance(head, WaitingDemand):
        return Member(1, terms)
    shape, pods = candidates.shape(demand), len(head.own_pods(demand))
    return Member(pods, terms, kind=None if shape is None else (shape, terms, pods))


@dataclass(slots=True)
class _NodeDemands:
    """The demands of one head on single nodes, with the room that its pods have there."""

    demands: Sequence[WaitingDemand]
    possible: Sequence[Sequence[str]]
    """Nodes that could take the pods of each."""
    endings: Mapping[str, Endings]
    candidates: Candidates
    capacity: HostCapacity
    snapshot: Snapshot
    wanted: dict[int, Resources] = field(default_factory=dict)
    related: bool = field(init=False)
    """Whether pods may have to be apart: most ask nothing of their neighbours."""
    obstacles: Obstacles = field(init=False)
    """Pods on nodes that keep them off these until they end."""
    known: dict[str, NodeObstacles] = field(default_factory=dict)
    """Those of each node."""

    def __post_init__(self) -> None:
        """Look once at all pods."""
        pods = [pod for each in self.demands for pod in each.pods]
        self.related = are_related(pods)
        self.obstacles = Obstacles(pods, self.candidates.neighbours)

    def nodes(self, member: int) -> Sequence[str]:
        """Return the nodes that could take a member's pods if nothing else ran there."""
        return self.possible[member]

    def of(self, member: int, node: str) -> Demand:
        """Return what to ask about the devices of a node."""
        return self.candidates.ask_on(self.demands[member], node)

    def has_room(self, member: int, node: str, ended: int, placed: Sequence[int]) -> bool:
        """Say whether a node has room for a member's pods after so many endings, beside the members `placed` there."""
        if placed and self.related:
            there = [pod for each in placed for pod in self.demands[each].pods]
            if any(are_apart(pod, other) for pod in self.demands[member].pods for other in there):
                return False
        if self._is_kept_off(member, node, ended):
            return False
        beside = [self._wanted(each) for each in placed]
        freed = self.endings[node].requests[:ended]
        return self.capacity.holds(node, self._wanted(member), beside, freed)

    def _is_kept_off(self, member: int, node: str, ended: int) -> bool:
        """Say whether pods on a node keep those of a member off it after so many endings."""
        wanted = self.obstacles.wanted(self.demands[member].pods)
        if not wanted:
            return False
        if node not in self.known:
            self.known[node] = self.obstacles.on(node)
        return self.known[node].stay(wanted, frozenset().union(*self.endings[node].pods[:ended]))

    def _wanted(self, member: int) -> Resources:
        if member not in self.wanted:
            self.wanted[member] = total(unplaced(self.demands[member], self.snapshot))
        return self.wanted[member]
