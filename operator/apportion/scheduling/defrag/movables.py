"""Movables: the pods with claims that a plan may move, what their restarts cost, and why the others stay.

In: the snapshot, the time, who counts. Out: the allocator's `Movable`s with their pods, what nodes have left beside devices, and how many stay for which reason.

A pod may move if something makes it anew (its controller, but no DaemonSet: that makes it on the same node), and its claims are ours, are used by bound pods only and
hold no shares of devices and none with admin access, which others have. Left alone, too: pods of groups that need a number of pods, because the others would lose what they did together; pods that
ask something of the pods beside them, because these may move as well. Without a person who looks at the plan more of them stay (`Scope.unattended`).
"""

from collections import Counter
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field, replace

from apportion.allocator.defrag.moves import Movable, Resources
from apportion.allocator.defrag.restartcost import restart_cost
from apportion.allocator.demand import Demand
from apportion.allocator.finished import finished
from apportion.api.claimconfig import as_asked
from apportion.api.contract import MANAGER
from apportion.api.defrag import MOST_DEVICES
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.pod import NO_RELATIONS, Pod
from apportion.scheduling.backfill.nodeendings import seconds
from apportion.scheduling.candidates.candidates import TOLERATIONS, Candidates
from apportion.scheduling.demands.groups import least_of
from apportion.scheduling.demands.podneeds import total
from apportion.scheduling.demands.waiting import WaitingDemand, is_kept
from apportion.scheduling.pace import Pace

FOREIGN = "something else than apportion allocated them, or their classes are not managed"
WITHOUT_POD = "no pod uses them, or they keep their devices between pods"
ENDING = "their pods start or end"
UNMADE = "nothing makes their pods anew (no controller, or a DaemonSet)"
GROUPED = "their group needs a number of pods"
RELATED = "their pods ask something of the pods beside them"
SHARED = "they have shares of devices"
LOOKING = "they look at devices that others have (admin access)"
JOB = "their pods' controller counts a restart as a failure, or nobody knows (a Job, or a kind of others)"
NAMED = "they are not made from templates for one pod each"
YOUNG = "they have had their devices for less than the policy's cooldown"
MANY = f"their pod has more than {MOST_DEVICES} devices"
CONTENDED = "others of their quota wait for its limit"

_KNOWN = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet"})
"""Controllers that make a pod anew however often it goes."""
_NOT_ANEW = frozenset({"DaemonSet", "Node"})
"""Controllers that make it on the same node."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Who counts."""

    nodes: frozenset[str] | None = None
    """Pods move from and to these nodes only; None: all."""
    unattended: bool = False
    """Nobody looks at the plan: only pods move of which it is known that others come instead, with claims of their own."""
    least_age: float = 0.0
    """For how many seconds claims have had their devices at least."""
    contended: frozenset[str] = frozenset()
    """Namespaces of quotas for whose limits somebody waits."""


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
    _nodes: dict[frozenset[str], frozenset[str]] = field(default_factory=dict)

    def shared(self, nodes: frozenset[str]) -> frozenset[str]:
        """Return the one object for a set of nodes: large clusters have many pods that could go to the same nodes."""
        return self._nodes.setdefault(nodes, nodes)


@dataclass(frozen=True, slots=True)
class MovableReader:
    """Reads what may move."""

    snapshot: Snapshot
    candidates: Candidates
    now: float
    """Seconds since 1970."""
    scope: Scope = Scope()

    def gather(self, wanted: Iterable[str] = ()) -> Generator[None, None, Movables]:
        """Return all that may move; yields wherever others may run. What changed meanwhile is left out.

        `wanted`: further resources of nodes that count.
        """
        found, names = Movables(), {*wanted}
        moment = self.snapshot.changes.claims.end
        seen: set[str] = set()
        for uid in sorted(self.snapshot.claim_index.allocated):
            if uid in seen or uid not in self.snapshot.claims:
                continue
            claims, pods = yield from self._joined(uid)
            seen.update(each.uid for each in claims)
            self._add(found, claims, pods)
            if found.movables:
                names.update(found.movables[-1].requests)
            yield
        for name in tuple(self.candidates.capacity().nodes):
            self._add_room(found, name, names)
            yield
        self._leave_out_changed(found, moment)
        return found

    def _leave_out_changed(self, found: Movables, moment: int) -> None:
        """Leave out what changed since a moment (the end of the log of claims); all at once, so that a picture can be taken then."""
        _, changed = self.snapshot.changes.claims.since(moment)
        if changed is None:
            found.movables = [each for each in found.movables if self._is_current(found, each.key)]
        elif changed:
            gone = {*changed}
            leaving = {
                key
                for key, claims in found.claims.items()
                for each in claims
                if (each.namespace, each.name) in gone
            }
            found.movables = [each for each in found.movables if each.key not in leaving]

    def of_pod(self, pod: Pod, target: str) -> Movables:
        """Return a pod with its claims, alone, or why it stays; of nodes its own and the one that it goes to count."""
        found = Movables()
        claims = [claim for claim in self.snapshot.named_claims(pod) if claim is not None]
        if not claims:
            found.left_alone[WITHOUT_POD] += 1
            return found
        self._add(found, *finished(self._joined(claims[0].uid)))
        names = {name for each in found.movables for name in each.requests}
        for each in {target, pod.node or target}:
            self._add_room(found, each, names)
        return found

    def _add_room(self, found: Movables, node: str, names: Iterable[str]) -> None:
        """Read what a node has left, if it counts and is still there."""
        capacity, nodes = self.candidates.capacity(), self.scope.nodes
        if node in capacity.nodes and (nodes is None or node in nodes):
            found.room[node] = capacity.left(node, names)

    def _is_current(self, found: Movables, key: str) -> bool:
        snapshot = self.snapshot
        return all(snapshot.claims.get(each.uid) is each for each in found.claims[key]) and all(
            snapshot.pods.get(each.uid) is each for each in found.pods[key]
        )

    def _add(self, found: Movables, claims: tuple[Claim, ...], pods: tuple[Pod, ...]) -> None:
        snapshot, scope = self.snapshot, self.scope
        node = _node(claims)
        if scope.nodes is not None and node is not None and node not in scope.nodes:
            return
        reason = self._against(claims, pods, node)
        if reason or node is None:
            found.left_alone[reason or FOREIGN] += len(claims)
            return
        key = claims[0].uid
        anew = tuple(replace(pod, node=None) for pod in pods)
        capacity = self.candidates.capacity()
        nodes = self.candidates.possible(WaitingDemand(claims, anew), capacity, capacity.suitable(anew))
        nodes = found.shared(nodes if scope.nodes is None else nodes & scope.nodes)
        holds = {each.uid: each.allocation.results for each in claims if each.allocation is not None}
        cost = sum(self._cost(pod, claims) for pod in pods)
        asked = tuple(as_asked(each, snapshot.state.classes, snapshot.drivers) for each in claims)
        demand = Demand(asked, nodes, tolerations=TOLERATIONS, seed=key)
        found.movables.append(Movable(key, node, demand, holds, len(pods), cost, total(pods)))
        found.pods[key], found.claims[key] = pods, claims

    def _joined(self, uid: str) -> Generator[None, None, tuple[tuple[Claim, ...], tuple[Pod, ...]]]:
        """Return the claims that go together with one because pods share them, and all pods that name them and have not ended. Yields after each few of them."""
        snapshot, pace = self.snapshot, Pace()
        claims, pods = {uid: snapshot.claims[uid]}, dict[str, Pod]()
        left = [uid]
        while left:
            for pod in snapshot.users(claims[left.pop()]):
                if pace.rests():
                    yield
                if pod.uid in pods or pod.finished:
                    continue
                pods[pod.uid] = pod
                for claim in snapshot.named_claims(pod):
                    if claim is not None and claim.uid not in claims:
                        claims[claim.uid] = claim
                        left.append(claim.uid)
        return tuple(claims[each] for each in sorted(claims)), tuple(pods[each] for each in sorted(pods))

    def _against(self, claims: tuple[Claim, ...], pods: tuple[Pod, ...], node: str | None) -> str:
        """Return why they stay; empty: they may move."""
        managed = self.snapshot.managed
        if any(not managed.owns(each) or each.allocated_by != MANAGER for each in claims) or node is None:
            return FOREIGN
        if any(is_kept(each) for each in claims) or not pods:
            return WITHOUT_POD
        if any(each.node != node or each.deleting for each in pods):
            return ENDING
        if any(each.controller is None or each.controller.kind in _NOT_ANEW for each in pods):
            return UNMADE
        if any(least_of(each, self.snapshot) for each in pods):
            return GROUPED
        if any(each.relations != NO_RELATIONS for each in pods):
            return RELATED
        results = [r for each in claims if each.allocation is not None for r in each.allocation.results]
        if any(result.admin_access for result in results):
            return LOOKING
        if any(result.share_id is not None for result in results):
            return SHARED
        return self._against_unattended(claims, pods) if self.scope.unattended else ""

    def _against_unattended(self, claims: tuple[Claim, ...], pods: tuple[Pod, ...]) -> str:
        if any(each.controller is None or each.controller.kind not in _KNOWN for each in pods):
            return JOB
        if len(pods) > 1 or any(each.owner_pod != pods[0].uid for each in claims):
            return NAMED
        if sum(len(each.allocation.results) for each in claims if each.allocation) > MOST_DEVICES:
            return MANY
        if pods[0].namespace in self.scope.contended:
            return CONTENDED
        return YOUNG if self.now - _began(pods[0], claims, self.now) < self.scope.least_age else ""

    def _cost(self, pod: Pod, claims: Iterable[Claim]) -> int:
        """Return what the restart of a pod costs."""
        age = max(0.0, self.now - _began(pod, claims, self.now))
        return restart_cost(1, pod.priority, age, pod.runtime.longest())


def movables_of(snapshot: Snapshot, candidates: Candidates, now: float, wanted: Iterable[str]) -> Movables:
    """Return what a person may move; `now`: seconds since 1970, `wanted`: further resources of nodes that count."""
    return finished(MovableReader(snapshot, candidates, now).gather(wanted))


def _node(claims: Iterable[Claim]) -> str | None:
    """Return the node that has the devices of all claims."""
    nodes = {each.allocation.node if each.allocation is not None else None for each in claims}
    return nodes.pop() if len(nodes) == 1 else None


def _began(pod: Pod, claims: Iterable[Claim], now: float) -> float:
    """Return since when a pod has its devices, in seconds since 1970."""
    stamps = [each.allocation.timestamp for each in claims if each.allocation is not None]
    return min((seconds(stamp) for stamp in (pod.started, *stamps) if stamp), default=now)
