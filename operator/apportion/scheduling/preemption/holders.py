"""Holders: the pods that could be evicted for a demand on a node, with what they give back and what their loss costs.

In: the snapshot, a demand, the rule of who may go for whom. Out: the allocator's `NodeVictims` of one node, and the pods behind each victim.

A victim is a pod whose claims we allocated in classes of policies with preemption on, on one node, with all pods that share
these claims; or whose quota gives back what it has borrowed. Left alone: pods that have their devices for less than `minRuntime`, claims that are allocated without a pod or reserved for something
else than pods, pods that are about to start with such a claim, claims that another allocator allocated, and who was refused
by a PodDisruptionBudget a moment ago. (Static pods cannot name claims.) What ends already is waited for: it costs nothing.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace

from apportion.allocator.preemption.victims import LEAVING, NodeVictims, Victim, VictimGroup
from apportion.api.policy import PreemptionMode
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod
from apportion.scheduling.backfill.nodeendings import seconds
from apportion.scheduling.consumers import is_freed_by_its_pods
from apportion.scheduling.hostcapacity import HostCapacity
from apportion.scheduling.obstacles import NodeObstacles
from apportion.scheduling.podneeds import total
from apportion.scheduling.preemption.eligibility import Eligibility, Holder
from apportion.scheduling.preemption.guarantees import Guarantees, ReclaimRule
from apportion.scheduling.waiting import WaitingDemand

_READ = 500
"""Claims that are looked at in one step."""
_SPARED = "a PodDisruptionBudget or the API server has just refused to evict them"
_TOGETHER = "they go together with pods that may not go"
_YOUNG = "they have had their devices for less than minRuntime"
_GUARANTEED = "their quota would have less than is guaranteed to it"


@dataclass(frozen=True, slots=True)
class PossibleVictims:
    """What could be evicted for one demand on a node."""

    node: NodeVictims
    pods: dict[str, tuple[Pod, ...]]
    """The live pods of each victim, by its key."""
    groups: dict[str, tuple[Pod, ...]]
    """The live pods of each group, by its key, on all nodes."""
    holders: dict[str, Holder]
    """The holder behind each victim, by its key."""
    left_alone: Counter[str]
    """Why others are no victims whom the rule lets go, and how many."""


@dataclass(frozen=True, slots=True)
class ClaimsByNode:
    """The claims whose devices could be taken back."""

    claims: dict[str, list[str]]
    """Their UIDs by node."""
    ending: frozenset[str]
    """Nodes where a claim loses its devices soon, because all of its pods end."""


@dataclass(slots=True)
class Holders:
    """Reads who has devices."""

    snapshot: Snapshot
    now: Callable[[], float]
    """Seconds since 1970."""
    manager: str
    """Our field manager: only what we wrote is taken back."""
    guarantees: Guarantees
    _groups: dict[str, tuple[Pod, ...]] = field(default_factory=dict)

    def by_node(self) -> Generator[None, None, ClaimsByNode]:
        """Return the claims whose devices could be taken back; yields where others may run."""
        found: dict[str, list[str]] = {}
        ending: set[str] = set()
        for number, uid in enumerate(tuple(self.snapshot.claim_index.allocated)):
            if number % _READ == _READ - 1:
                yield
            claim = self.snapshot.claims.get(uid)
            node = claim.allocation.node if claim is not None and claim.allocation is not None else None
            if claim is not None and node is not None and self._may_be_taken(claim):
                found.setdefault(node, []).append(uid)
                if self._ends(claim):
                    ending.add(node)
        return ClaimsByNode(found, frozenset(ending))

    def read(
        self,
        demand: WaitingDemand,
        node: str,
        claims: Iterable[str],
        capacity: HostCapacity,
        rule: Eligibility,
        reclaim: ReclaimRule,
        spared: Callable[[str], bool],
        wanted: Iterable[str],
        obstacles: NodeObstacles,
    ) -> PossibleVictims:
        """Return the victims on a node as they are now, of those with these claims (UIDs).

        `wanted`: the resources that the demand's pods request; `obstacles`: the pods that keep them off the node; `rule` says who may go, `spared` of a pod's UID that it may not go now.
        """
        self._groups = {}
        left_alone: Counter[str] = Counter()
        if node not in capacity.nodes:
            return PossibleVictims(NodeVictims(node, ()), {}, {}, {}, left_alone)
        victims: list[Victim] = []
        holders: dict[str, Holder] = {}
        own = [claim for claim in self.snapshot.claims_of(claims) if self._has_devices_of(claim, node)]
        for holder in self._holders(node, own):
            victim = self._victim(holder, demand, rule, reclaim, spared, obstacles)
            if isinstance(victim, Victim):
                victims.append(victim)
                holders[victim.key] = holder
            elif victim:
                left_alone[victim] += 1
        groups = {
            each.group: self._group(self._groups[each.group], reclaim) for each in victims if each.group
        }
        room = {**capacity.left(node, wanted), **obstacles.left}
        made = NodeVictims(node, tuple(victims), groups, room, reclaim.allowance)
        may = [each for index, each in enumerate(victims) if made.allows(1 << index)]
        left_alone[_GUARANTEED] += len(victims) - len(may)
        pods = {key: tuple(pod for pod in holder.pods if not pod.deleting) for key, holder in holders.items()}
        return PossibleVictims(
            replace(made, victims=tuple(may)), pods, dict(self._groups), holders, +left_alone
        )

    def _has_devices_of(self, claim: Claim, node: str) -> bool:
        """Say whether a claim still has devices of a node that could be taken back."""
        return claim.allocation is not None and claim.allocation.node == node and self._may_be_taken(claim)

    def _may_be_taken(self, claim: Claim) -> bool:
        """Say whether its policy lets its devices be taken back, and the end of its pods gives them back."""
        snapshot = self.snapshot
        ours = claim.allocated_by == self.manager and snapshot.managed.owns(claim)
        if not ours or not is_freed_by_its_pods(claim):
            return False
        if not self._goes_by_priority(claim) and not self.guarantees.gives_back(claim.namespace):
            return False
        return all(each.resource == "pods" and not each.api_group for each in claim.reserved_for)

    def _goes_by_priority(self, claim: Claim) -> bool:
        return self.snapshot.managed.policy(claim).preemption.mode is not PreemptionMode.NEVER

    def _ends(self, claim: Claim) -> bool:
        """Say whether a claim is about to lose its devices, because all pods that have reserved it are over or end."""
        users = [self.snapshot.pods.get(each.uid) for each in claim.reserved_for]
        return bool(users) and all(pod is None or pod.deleting or pod.finished for pod in users)

    def _holders(self, node: str, claims: Iterable[Claim]) -> Iterator[Holder]:
        """Yield the holders on a node; only such as may be taken apart as a whole."""
        seen: set[str] = set()
        for claim in sorted(claims, key=lambda each: each.uid):
            if claim.uid in seen:
                continue
            found = self._joined(claim)
            seen.update(each.uid for each in found.claims)
            if self._is_whole(node, found):
                yield found

    def _joined(self, first: Claim) -> Holder:
        """Return the claims and pods that belong together with a claim."""
        claims, pods = {first.uid: first}, dict[str, Pod]()
        found = [first]
        while found:
            for pod in self.snapshot.users(found.pop()):
                if pod.uid in pods or pod.finished or (pod.node is None and pod.gates):
                    continue
                pods[pod.uid] = pod
                for claim in self.snapshot.named_claims(pod):
                    if claim is not None and claim.uid not in claims and claim.allocation is not None:
                        claims[claim.uid] = claim
                        found.append(claim)
        live = tuple(pods[uid] for uid in sorted(pods))
        members = [each for pod in live for each in self._members(pod)]
        priority = max([pod.priority for pod in (*live, *members)], default=LEAVING)
        by_priority = all(map(self._goes_by_priority, claims.values()))
        return Holder(tuple(claims[uid] for uid in sorted(claims)), live, priority, by_priority)

    def _is_whole(self, node: str, holder: Holder) -> bool:
        return all(
            self._may_be_taken(claim) and claim.allocation is not None and claim.allocation.node == node
            for claim in holder.claims
        ) and all(pod.node == node for pod in holder.pods)

    def _victim(
        self,
        holder: Holder,
        demand: WaitingDemand,
        rule: Eligibility,
        reclaim: ReclaimRule,
        spared: Callable[[str], bool],
        obstacles: NodeObstacles,
    ) -> Victim | str | None:
        """Return a victim; None if it may not go, or the reason where the rule would let it go."""
        live = [pod for pod in holder.pods if not pod.deleting]
        # What the demand's pods share keeps its devices for them, or needs as many again.
        kept = {claim.uid for claim in demand.tied}
        found = [each for each in holder.claims if each.uid not in kept]
        holds = {each.uid: each.allocation.results for each in found if each.allocation is not None}
        if not holds:
            return None
        gives = {**total(holder.pods), **obstacles.freed(holder.pods)}
        key = min(holds)
        if not live:
            return Victim(key, LEAVING, 0, 0, holds, gives) if all(map(self._ends, holder.claims)) else None
        names = {pod.uid: self._group_of(pod) for pod in live}
        groups = set(names.values())
        if not rule.may_go(holder, demand):
            return None
        if any(spared(uid) for uid in names):
            return _SPARED
        group = groups.pop()
        if groups or (group and not all(self._is_ours(pod) for pod in self._groups[group])):
            return _TOGETHER
        age = min(self._age(claim) for claim in holder.claims)
        if age < max(self._least_runtime(claim) for claim in holder.claims):
            return _YOUNG
        counted = reclaim.counted(holder.claims)
        return Victim(key, holder.priority, len(live), int(age) * len(live), holds, gives, group, counted)

    def _age(self, claim: Claim) -> float:
        """Return for how many seconds a claim has had its devices."""
        stamp = claim.allocation.timestamp if claim.allocation is not None else None
        return max(0.0, self.now() - seconds(stamp)) if stamp else 0.0

    def _least_runtime(self, claim: Claim) -> float:
        return self.snapshot.managed.policy(claim).preemption.min_runtime.total_seconds()

    # Groups. ----------------------------------------------------------------------------------------------------

    def _group_of(self, pod: Pod) -> str:
        """Return the key of the pod's group, if it needs a number of pods; its members are then known."""
        if pod.group is None or not pod.group.least:
            return ""
        key = f"{pod.namespace}/{pod.group.name}"
        if key not in self._groups:
            self._groups[key] = tuple(self._members(pod))
        return key

    def _members(self, pod: Pod) -> list[Pod]:
        """Return the live pods of a pod's group that run."""
        if pod.group is None or not pod.group.least:
            return []
        uids = self.snapshot.pod_index.members(pod.namespace, pod.group.name)
        return [
            each
            for each in self.snapshot.pods_of(uids)
            if each.node is not None and not each.deleting and not each.finished
        ]

    def _is_ours(self, pod: Pod) -> bool:
        claims = list(self.snapshot.named_claims(pod))
        return bool(claims) and all(claim is not None and self._may_be_taken(claim) for claim in claims)

    def _group(self, members: tuple[Pod, ...], reclaim: ReclaimRule) -> VictimGroup:
        least = max([pod.group.least for pod in members if pod.group is not None], default=0)
        claims = [
            [claim for claim in self.snapshot.named_claims(pod) if claim is not None] for pod in members
        ]
        ages = [min(map(self._age, own), default=0.0) for own in claims]
        together = {claim.uid: claim for own in claims for claim in own}
        return VictimGroup(
            max(0, len(members) - least),
            len(members),
            sum(int(age) for age in ages),
            reclaim.counted(together.values()),
        )
