"""Movables: the pods with claims that a plan may move, what their restarts cost, and why the others stay.

In: a world, the time. Out: the allocator's `Movable`s with their pods, what nodes have left beside devices, and how many stay for which reason.

A pod may move if something makes it anew (its controller, but no DaemonSet: that makes it on the same node), and its claims are ours, are used by bound pods only and
hold no shares of devices. Left alone, too: pods of groups that need a number of pods, because the others would lose what they did together; pods that
ask something of the pods beside them, because these may move as well.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from apportion.allocator.defrag.moves import Movable, Resources
from apportion.allocator.defrag.restartcost import restart_cost
from apportion.allocator.demand import Demand
from apportion.api.claimconfig import as_asked
from apportion.cli.world.objects import Key
from apportion.cli.world.world import World
from apportion.cluster import kinds
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.pod import NO_RELATIONS, Pod
from apportion.scheduling.backfill.nodeendings import seconds
from apportion.scheduling.candidates import TOLERATIONS, Candidates
from apportion.scheduling.podneeds import total
from apportion.scheduling.waiting import WaitingDemand, is_kept

MANAGER = "apportion-operator"
"""The operator's field manager: what others allocated is theirs."""

FOREIGN = "something else than apportion allocated them, or their classes are not managed"
WITHOUT_POD = "no pod uses them, or they keep their devices between pods"
ENDING = "their pods start or end"
UNMADE = "nothing makes their pods anew (no controller, or a DaemonSet)"
GROUPED = "their group needs a number of pods"
RELATED = "their pods ask something of the pods beside them"
SHARED = "they have shares of devices"


@dataclass(slots=True)
class Movables:
    """What may move."""

    movables: list[Movable] = field(default_factory=list)
    pods: dict[str, tuple[Pod, ...]] = field(default_factory=dict)
    """The pods of each, by its key."""
    claims: dict[str, tuple[Claim, ...]] = field(default_factory=dict)
    room: dict[str, Resources] = field(default_factory=dict)
    """What each node has left beside devices."""
    left_alone: Counter[str] = field(default_factory=Counter)
    """Why others stay, and how many claims."""


def movables_of(world: World, candidates: Candidates, now: float, wanted: Iterable[str]) -> Movables:
    """Return what may move; `now`: seconds since 1970, `wanted`: further resources of nodes that count."""
    snapshot, found = world.snapshot, Movables()
    capacity = candidates.capacity()
    for claims, pods in _together(snapshot):
        node = _node(claims)
        reason = _against(world, claims, pods, node)
        if reason or node is None:
            found.left_alone[reason or FOREIGN] += len(claims)
            continue
        key = claims[0].uid
        anew = tuple(replace(pod, node=None) for pod in pods)
        nodes = candidates.possible(WaitingDemand(claims, anew), capacity, capacity.suitable(anew))
        holds = {each.uid: each.allocation.results for each in claims if each.allocation is not None}
        cost = sum(_cost(pod, claims, now) for pod in pods)
        asked = tuple(as_asked(each, snapshot.state.classes, snapshot.drivers) for each in claims)
        demand = Demand(asked, nodes, tolerations=TOLERATIONS, seed=key)
        found.movables.append(Movable(key, node, demand, holds, len(pods), cost, total(pods)))
        found.pods[key], found.claims[key] = pods, claims
    names = {*wanted, *(name for each in found.movables for name in each.requests)}
    found.room = {name: capacity.left(name, names) for name in capacity.nodes}
    return found


def _together(snapshot: Snapshot) -> Iterator[tuple[tuple[Claim, ...], tuple[Pod, ...]]]:
    """Yield the claims with devices, those that pods share together, with all pods that name them and have not ended."""
    seen: set[str] = set()
    for uid in sorted(snapshot.claim_index.allocated):
        if uid in seen:
            continue
        claims, pods = {uid: snapshot.claims[uid]}, dict[str, Pod]()
        left = [uid]
        while left:
            for pod in snapshot.users(claims[left.pop()]):
                if pod.uid in pods or pod.finished:
                    continue
                pods[pod.uid] = pod
                for claim in snapshot.named_claims(pod):
                    if claim is not None and claim.uid not in claims:
                        claims[claim.uid] = claim
                        left.append(claim.uid)
        seen.update(claims)
        yield (
            tuple(claims[each] for each in sorted(claims)),
            tuple(pods[each] for each in sorted(pods)),
        )


def _node(claims: Iterable[Claim]) -> str | None:
    """Return the node that has the devices of all claims."""
    nodes = {each.allocation.node if each.allocation is not None else None for each in claims}
    return nodes.pop() if len(nodes) == 1 else None


def _against(world: World, claims: tuple[Claim, ...], pods: tuple[Pod, ...], node: str | None) -> str:
    """Return why they stay; empty: they may move."""
    managed = world.snapshot.managed
    if any(not managed.owns(each) or each.allocated_by != MANAGER for each in claims) or node is None:
        return FOREIGN
    if any(is_kept(each) for each in claims) or not pods:
        return WITHOUT_POD
    if any(each.node != node or each.deleting for each in pods):
        return ENDING
    if not all(_is_made_anew(world, each) for each in pods):
        return UNMADE
    if any(each.group is not None and each.group.least for each in pods):
        return GROUPED
    if any(each.relations != NO_RELATIONS for each in pods):
        return RELATED
    results = (r for each in claims if each.allocation is not None for r in each.allocation.results)
    return SHARED if any(result.share_id is not None for result in results) else ""


def _is_made_anew(world: World, pod: Pod) -> bool:
    metadata: Mapping[str, object] = world.objects[Key(kinds.PODS.name, pod.namespace, pod.name)]["metadata"]
    owners = metadata.get("ownerReferences")
    return isinstance(owners, list) and any(
        owner.get("controller") and owner.get("kind") != "DaemonSet" for owner in owners
    )


def _cost(pod: Pod, claims: Iterable[Claim], now: float) -> int:
    """Return what the restart of a pod costs."""
    stamps = [each.allocation.timestamp for each in claims if each.allocation is not None]
    began = min((seconds(stamp) for stamp in (pod.started, *stamps) if stamp), default=now)
    return restart_cost(1, pod.priority, max(0.0, now - began), pod.runtime.longest())
