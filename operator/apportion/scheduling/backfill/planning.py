"""Planning of one reservation: what `plan_reservation` is asked, with the cpu and memory that pods free and need.

In: a demand or group that was refused, the endings of nodes, the capacity of nodes. Out: where it will fit first, within one domain and beside each other
as its pods ask.
"""

from collections import Counter
from collections.abc import Generator
from functools import partial

from apportion.allocator.decision import Decision
from apportion.allocator.gang.members import Member
from apportion.allocator.nodeanswers import COUNTED, NodeAnswers
from apportion.allocator.policyterms import terms_of
from apportion.allocator.reservation import ReservationPlan, plan_reservation
from apportion.api.contract import HELD
from apportion.cluster.snapshot import Snapshot
from apportion.dra.pod import Pod
from apportion.errors import BrokenInput
from apportion.scheduling.backfill.groupdomains import group_domains
from apportion.scheduling.backfill.heads import Head, members_of
from apportion.scheduling.backfill.nodedemands import NodeDemands
from apportion.scheduling.backfill.nodeendings import NodeEndings
from apportion.scheduling.backfill.reservation import is_earlier
from apportion.scheduling.backfill.widedevices import WideDevices
from apportion.scheduling.candidates.candidates import Candidates
from apportion.scheduling.demands.groups import WaitingGroup
from apportion.scheduling.demands.podneeds import total
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.room.keptroom import Kept
from apportion.scheduling.room.noderoom import unplaced
from apportion.scheduling.room.obstacles import holds_devices

MOST_MEMBERS = 256
"""Demands of a group for which devices are reserved."""
MOST_RELATED = 16
"""The same where pods on one node decide who goes to another: all nodes are looked at for each of these."""
MOST_NODES = 256
"""Nodes that may take the pods of such a group, for the same reason: to look at so many takes some 50 ms, in one piece."""


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
    asked_there = NodeDemands(demands, nodes, rows, candidates, capacity, snapshot, answers)
    if asked_there.beyond and (len(demands) > MOST_RELATED or len(rows) > MOST_NODES):
        return None
    best: ReservationPlan | None = None
    with asked_there.placing():
        for domain in group_domains(head, frozenset(rows), snapshot):
            asked_there.domain = domain
            found = plan_reservation(
                snapshot.state,
                {node: row.devices for node, row in rows.items() if node in domain},
                members,
                asked_there,
                enough=head.enough if isinstance(head, WaitingGroup) else 1,
                now=now,
                prefer=candidates.idle,
                known=known,
                wide=any(holders.values()),
                answers=answers,
            )
            if found is not None and (best is None or is_earlier(found, best)):
                best = found
    return best


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


def suits(found: ReservationPlan, head: Head, candidates: Candidates) -> Generator[None, None, bool]:
    """Say whether the nodes of a plan suit its pods still: pods and volumes elsewhere may have made them unsuitable since. Yields between members."""
    demands, capacity = members_of(head), candidates.capacity()
    for place in found.places:
        among = frozenset({place.decision.node})
        if not candidates.possible(demands[place.member], capacity, among, holds_devices):
            return False
        yield
    return True


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
