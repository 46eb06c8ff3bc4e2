"""Holders: the pods that could be evicted for a demand on a node, with what they give back and what their loss costs.

In: the snapshot, a demand, the rule of who may go for whom. Out: the allocator's `NodeVictims` of one node, and the pods behind each victim.

A victim is a pod whose claims we allocated in classes of policies with preemption on, on one node, with all pods that share
these claims; or whose quota gives back what it has borrowed. Left alone: pods that have their devices for less than `minRuntime`, pods that are about to start with such a claim, who was refused
by a PodDisruptionBudget a moment ago, and groups that go as a whole where one of their pods, on whatever node, is left alone. (Static pods cannot name claims.) What ends already, or is
about to, is waited for, unless that was in vain before: it costs nothing.
"""

from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import filterfalse

from apportion.allocator.preemption.victims import LEAVING, NodeVictims, Victim, VictimGroup
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod
from apportion.scheduling.demands.podneeds import total
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.preemption.cooldown import Cooldown
from apportion.scheduling.preemption.eligibility import Eligibility, Holder
from apportion.scheduling.preemption.guarantees import ReclaimRule
from apportion.scheduling.preemption.heldclaims import HeldClaims
from apportion.scheduling.preemption.inprogress import InProgress
from apportion.scheduling.preemption.runninggroups import RunningGroup, RunningGroups
from apportion.scheduling.room.hostcapacity import HostCapacity
from apportion.scheduling.room.obstacles import NodeObstacles

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
    """The pods of each victim that neither end nor are about to, by its key."""
    groups: dict[str, Holder]
    """All such pods of each group, on all nodes, by its key."""
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


class Holders:
    """Reads who has devices."""

    def __init__(self, held: HeldClaims) -> None:
        self._held = held
        self._snapshot = held.snapshot

    def by_node(self) -> Generator[None, None, ClaimsByNode]:
        """Return the claims whose devices could be taken back; yields where others may run."""
        found: dict[str, list[str]] = {}
        ending: set[str] = set()
        for number, uid in enumerate(tuple(self._snapshot.claim_index.allocated)):
            if number % _READ == _READ - 1:
                yield
            claim = self._snapshot.claims.get(uid)
            node = claim.allocation.node if claim is not None and claim.allocation is not None else None
            if claim is not None and node is not None and self._held.may_be_taken(claim):
                found.setdefault(node, []).append(uid)
                if self._held.ends(claim):
                    ending.add(node)
        return ClaimsByNode(found, frozenset(ending))

    def groups(self, now: InProgress) -> RunningGroups:
        """Return the groups of pods that run, each as it is when it is asked for first."""
        return RunningGroups(self._held, now.going)

    def read(
        self,
        demand: WaitingDemand,
        node: str,
        claims: Iterable[str],
        capacity: HostCapacity,
        rule: Eligibility,
        reclaim: ReclaimRule,
        cooldown: Cooldown,
        now: InProgress,
        wanted: Iterable[str],
        obstacles: NodeObstacles,
        running: RunningGroups,
    ) -> PossibleVictims:
        """Return the victims on a node as they are now, of those with these claims (UIDs).

        `wanted`: the resources that the demand's pods request; `obstacles`: the pods that keep them off the node; `rule` says who may go, `cooldown` who may not go now, and whose end nobody waits for;
        `now`: what is being done for others; `running`: groups with that.
        """
        left_alone: Counter[str] = Counter()
        if node not in capacity.nodes:
            return PossibleVictims(NodeVictims(node, ()), {}, {}, {}, left_alone)
        look = _Look(node, self._held, running, demand, rule, reclaim, cooldown, now.going)
        victims: list[Victim] = []
        holders: dict[str, Holder] = {}
        own = [claim for claim in self._snapshot.claims_of(claims) if self._has_devices_of(claim, node)]
        for holder in self._holders(node, own, look.groups):
            victim = look.victim(holder, obstacles)
            if isinstance(victim, Victim):
                victims.append(victim)
                holders[victim.key] = holder
            elif victim:
                left_alone[victim] += 1
        promised = now.room.get(node, {})
        left = {
            name: left - promised.get(name, 0)
            for name, left in capacity.left(node, wanted, demand.pods).items()
        }
        allowance = {**reclaim.allowance, **look.allowance}
        made = NodeVictims(node, tuple(victims), look.victim_groups, {**left, **obstacles.left}, allowance)
        may = [each for index, each in enumerate(victims) if made.allows(1 << index)]
        left_alone[_GUARANTEED] += len(victims) - len(may)
        pods = {key: tuple(filter(look.groups.stays, holder.pods)) for key, holder in holders.items()}
        groups = {key: group.whole for key, group in look.named.items()}
        return PossibleVictims(replace(made, victims=tuple(may)), pods, groups, holders, +left_alone)

    def _has_devices_of(self, claim: Claim, node: str) -> bool:
        """Say whether a claim still has devices of a node that could be taken back."""
        on = claim.allocation.node if claim.allocation is not None else None
        return on == node and self._held.may_be_taken(claim)

    def _holders(self, node: str, claims: Iterable[Claim], groups: RunningGroups) -> Iterator[Holder]:
        """Yield the holders on a node; only such as may be taken apart as a whole."""
        seen: set[str] = set()
        for claim in sorted(claims, key=lambda each: each.uid):
            if claim.uid in seen:
                continue
            found = self._joined(claim, groups)
            seen.update(each.uid for each in found.claims)
            if self._is_whole(node, found):
                yield found

    def _joined(self, first: Claim, groups: RunningGroups) -> Holder:
        """Return the claims and pods that belong together with a claim."""
        claims, pods = {first.uid: first}, dict[str, Pod]()
        found, index = [first], self._snapshot.pod_index
        while found:
            claim = found.pop()
            # Thousands of pods behind gates may name each claim of a node; none of them is bound.
            users = filterfalse(index.gated.__contains__, index.users(claim.namespace, claim.name))
            reserving = {each.uid for each in claim.reserved_for}
            for pod in self._snapshot.pods_of(users):
                # One that nobody has reserved the claim for does not start with it, and may wait for ever.
                starts = pod.node is not None or (not pod.gates and pod.uid in reserving)
                if pod.uid in pods or pod.finished or not starts:
                    continue
                pods[pod.uid] = pod
                for other in self._snapshot.named_claims(pod):
                    if other is not None and other.uid not in claims and other.allocation is not None:
                        claims[other.uid] = other
                        found.append(other)
        live = tuple(pods[uid] for uid in sorted(pods))
        priorities = [pod.priority for pod in live]
        priorities += [group.whole.priority for pod in live if (group := groups.of(pod)) is not None]
        by_priority = all(map(self._held.goes_by_priority, claims.values()))
        return Holder(
            tuple(claims[uid] for uid in sorted(claims)), live, max(priorities, default=LEAVING), by_priority
        )

    def _is_whole(self, node: str, holder: Holder) -> bool:
        # A pod on another node cannot run with them, and goes, too: its owner has put it there by name.
        return all(self._has_devices_of(claim, node) for claim in holder.claims) and all(
            pod.node is not None for pod in holder.pods
        )


@dataclass(slots=True)
class _Look:
    """One look at a node's holders for one demand."""

    node: str
    held: HeldClaims
    groups: RunningGroups
    demand: WaitingDemand
    rule: Eligibility
    reclaim: ReclaimRule
    cooldown: Cooldown
    going: Collection[str]
    named: dict[str, RunningGroup] = field(default_factory=dict)
    """The groups of victims, by key."""
    allowance: dict[str, int] = field(default_factory=dict)
    """Of groups that may not go as a whole: how many of their pods may go."""
    against: dict[str, str | None] = field(default_factory=dict)
    """Why groups may not go as a whole, by key."""

    def victim(self, holder: Holder, obstacles: NodeObstacles) -> Victim | str:
        """Return a victim; or, where it may not go, the reason (empty: the rule does not let it go)."""
        # What the demand's pods share keeps its devices for them, or needs as many again.
        kept = {claim.uid for claim in self.demand.tied}
        found = [each for each in holder.claims if each.uid not in kept]
        holds = {each.uid: each.allocation.results for each in found if each.allocation is not None}
        if not holds or any(self.cooldown.hangs(pod.uid) for pod in holder.pods):
            return ""
        here = [pod for pod in holder.pods if pod.node == self.node]
        key, gives = min(holds), {**total(here), **obstacles.freed(here)}
        live = list(filter(self.groups.stays, holder.pods))
        if not live:
            ends = all(self.held.ends(claim, self.going) for claim in holder.claims)
            return Victim(key, LEAVING, 0, 0, holds, gives) if ends else ""
        against = self._against(holder, live, young=self.held.are_young(holder.claims))
        groups = {group.key if group is not None else "": group for group in map(self.groups.of, live)}
        group = groups[min(groups)]
        if against is None and len(groups) > 1:
            against = _TOGETHER
        if against != "" and group is not None and len(groups) == 1:
            whole = self._against_whole(group)
            if len(live) > group.spare:
                against = whole
            elif whole is not None:
                self.allowance[_of_group(group)] = group.spare
        if against is not None:
            return against
        counted = self.reclaim.counted(holder.claims)
        if group is not None:
            self.named[group.key] = group
            if _of_group(group) in self.allowance:
                counted[_of_group(group)] = len(live)
        lost = int(self.held.age(holder.claims)) * len(live)
        name = group.key if group is not None else ""
        return Victim(key, holder.priority, len(live), lost, holds, gives, name, counted)

    @property
    def victim_groups(self) -> dict[str, VictimGroup]:
        """Return the groups of victims as the allocator knows them."""
        return {key: self._group(group) for key, group in self.named.items()}

    def _group(self, group: RunningGroup) -> VictimGroup:
        counted = self.reclaim.counted(group.whole.claims)
        if _of_group(group) in self.allowance:
            counted[_of_group(group)] = group.spare + 1
        return VictimGroup(group.spare, len(group.whole.pods), group.lost, counted)

    def _against_whole(self, group: RunningGroup) -> str | None:
        """Return why a group may not go as a whole, as `_against` does."""
        if group.key not in self.against:
            against = self._against(group.whole, group.whole.pods, young=group.young)
            self.against[group.key] = _TOGETHER if against is None and not group.takeable else against
        return self.against[group.key]

    def _against(self, holder: Holder, live: Iterable[Pod], *, young: bool) -> str | None:
        """Return why pods may not go, empty if the rule does not let them; None: they may."""
        if not self.rule.may_go(holder, self.demand):
            return ""
        if any(self.cooldown.spared(pod.uid) for pod in live):
            return _SPARED
        return _YOUNG if young else None


def _of_group(group: RunningGroup) -> str:
    # Guarantees count by the names of quotas, which have no colon.
    return f"group:{group.key}"
