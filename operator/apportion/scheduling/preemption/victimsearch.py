"""VictimSearch: whom to evict for a demand or a group, asked of the allocator.

In: one that was refused, who has devices, what is under way. Out: the cheapest victims with the pods to evict, or why there are none. At
most MOST_NODES nodes are looked at in one search; where there are more, the next search begins behind them.
"""

from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.policyterms import terms_of
from apportion.allocator.preemption.findgangvictims import GangVictims
from apportion.allocator.preemption.findvictims import MOST_NODES, find_victims
from apportion.allocator.preemption.victims import VictimSet
from apportion.api.policy import PreemptionMode
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod
from apportion.errors import BrokenInput
from apportion.scheduling.candidates import unplaced
from apportion.scheduling.decider import Decider
from apportion.scheduling.hostcapacity import HostCapacity
from apportion.scheduling.podneeds import total
from apportion.scheduling.preemption.cooldown import Cooldown
from apportion.scheduling.preemption.eligibility import AnyOf, Eligibility, Holder, LowerPriority
from apportion.scheduling.preemption.groupvictims import (
    MOST_TAKEN,
    AskedGroup,
    asked_of,
    looked_at,
    victims_of,
)
from apportion.scheduling.preemption.guarantees import Guarantees, ReclaimRule
from apportion.scheduling.preemption.holders import ClaimsByNode, Holders, PossibleVictims
from apportion.scheduling.preemption.preemptor import Preemptor
from apportion.scheduling.quota.overlimit import OverLimit
from apportion.scheduling.waiting import WaitingDemand


class _Nobody:
    """The rule by which nobody is evicted."""

    def may_go(self, _holder: Holder, _demand: WaitingDemand) -> bool:
        return False


_NOBODY, _LOWER_PRIORITY = _Nobody(), LowerPriority()


@dataclass(frozen=True, slots=True)
class InProgress:
    """What is being done for others."""

    ahead: Sequence[WaitingDemand] = ()
    """Demands that are about to get devices."""
    going: Collection[str] = ()
    """Pods (UIDs) that are being evicted for them."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Victims, and all the pods to evict: those of groups, on other nodes too."""

    victims: VictimSet | GangVictims
    pods: tuple[Pod, ...]
    asked: tuple[Claim, ...]
    """The demand's claims as the allocator was asked about them."""
    quota: str = ""
    """The quota that takes something back; empty: they go by priority."""
    borrowers: Mapping[str, str] = field(default_factory=dict)
    """By UID of the pods from whom it does: the quota that has borrowed."""

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """Return what each member gets."""
        return _decisions(self.victims)


@dataclass(frozen=True, slots=True)
class _Asking:
    """One that asks, and the nodes that are looked at for it."""

    preemptor: Preemptor
    asked: Demand | AskedGroup
    rows: Sequence[tuple[str, list[Claim]]]
    """By node the claims that could be taken back."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One attempt to have pods evicted for a demand."""

    demand: WaitingDemand
    by_priority: Eligibility
    reclaim: ReclaimRule = field(default_factory=ReclaimRule)

    @property
    def takes_back(self) -> bool:
        """Whether pods go for what is guaranteed, too."""
        return self.demand is self.reclaim.within


class VictimSearch:
    """Searches for one demand at a time."""

    def __init__(
        self,
        decider: Decider,
        holders: Holders,
        guarantees: Guarantees,
        cooldown: Cooldown,
    ) -> None:
        self._decider = decider
        self._snapshot = decider.snapshot
        self._holders = holders
        self._guarantees = guarantees
        self._cooldown = cooldown
        self._turn = 0
        """Where the next search begins among the nodes, if there are too many."""

    def claims(self) -> ClaimsByNode:
        """Return the claims whose devices could be taken back."""
        return self._holders.by_node()

    def search(
        self,
        preemptor: Preemptor,
        found: ClaimsByNode,
        only: frozenset[str] | None,
        capacity: HostCapacity,
        in_progress: InProgress,
        *,
        evicts: bool,
    ) -> Chosen | Counter[str]:
        """Return the cheapest victims; where there are none, or none are needed, why pods stay that a quota would let go.

        `only`: the nodes that count (None: all). `evicts`: else nobody is evicted, and what ends anyway is looked for.
        """
        demand = preemptor.demand
        try:
            self._decider.quotas.check(demand)
        except OverLimit:
            return Counter()  # what waits for its quota takes nothing from anybody
        taken = found.claims.keys() if evicts else found.ending
        asking = self._asking(preemptor, found, taken, only, capacity)
        if asking is None:
            return Counter()
        left_alone: Counter[str] = Counter()
        attempts = deque(self._attempts(demand, in_progress) if evicts else [_Attempt(demand, _NOBODY)])
        while attempts:
            attempt = attempts.popleft()
            with self._decider.reservations.lifted(preemptor.head):
                possible, victims = self._victims(asking, attempt, capacity)
            if attempt.takes_back:
                left_alone = possible.left_alone
            if victims is None:
                continue
            decision = _together(_decisions(victims))
            try:
                self._decider.quotas.check_chosen(demand, decision)
                for member, own in zip(preemptor.members, _decisions(victims), strict=True):
                    self._decider.admissible.check(member, own)
            except (BrokenInput, OverLimit):
                continue  # the one who decides about the demand meets it again, and says so
            chosen = _chosen(attempt, possible, victims)
            if chosen.borrowers:
                if self._guarantees.stays_within(demand, decision, in_progress.ahead):
                    return chosen
            elif attempt.reclaim.free is None or self._guarantees.rises(demand, decision, attempt.reclaim):
                return chosen
            else:
                attempts.append(replace(attempt, reclaim=replace(attempt.reclaim, free=None)))
        return left_alone

    def _asking(
        self,
        preemptor: Preemptor,
        found: ClaimsByNode,
        nodes: Collection[str],
        only: frozenset[str] | None,
        capacity: HostCapacity,
    ) -> _Asking | None:
        """Return what to ask; `nodes`: those from which somebody may go. None: no node of these suits the pods."""
        if preemptor.group is not None:
            group = asked_of(preemptor, self._decider, capacity, only)
            if group is None:
                return None
            taken, others = looked_at(group.nodes, nodes, self._turn)
            self._turn += MOST_TAKEN
            rows = [*((name, found.claims[name]) for name in taken), *((name, []) for name in others)]
            return _Asking(preemptor, group, rows)
        if only is not None:
            nodes = only.intersection(nodes)
        asked = self._decider.candidates.ask_with_victims(preemptor.demand, capacity, nodes)
        if asked is None:
            return None
        names = sorted(asked.nodes or ())
        first = self._turn % len(names) if len(names) > MOST_NODES else 0
        self._turn += MOST_NODES
        rows = [(name, found.claims[name]) for name in (names[first:] + names[:first])[:MOST_NODES]]
        return _Asking(preemptor, asked, rows)

    def _victims(
        self, asking: _Asking, attempt: _Attempt, capacity: HostCapacity
    ) -> tuple[PossibleVictims, VictimSet | GangVictims | None]:
        """Return who may go in an attempt, and the cheapest victims among them; None: there are none, or the demand is broken."""
        rule = AnyOf([attempt.by_priority, attempt.reclaim]) if attempt.takes_back else attempt.by_priority
        demand, asked = asking.preemptor.demand, asking.asked
        wanted = total(unplaced(demand, self._snapshot))
        possible = self._holders.read(
            demand, asking.rows, capacity, rule, attempt.reclaim, self._cooldown.spared, wanted
        )
        try:
            if isinstance(asked, AskedGroup):
                return possible, victims_of(asked, attempt.demand.asked, possible.nodes, self._decider)
            return possible, find_victims(
                self._snapshot.state,
                replace(asked, claims=attempt.demand.asked),
                possible.nodes,
                wanted=wanted,
                terms=terms_of(self._snapshot.managed.policy(demand.claims[0])),
                prefer=self._decider.candidates.idle,
            )
        except BrokenInput:
            return possible, None

    def _attempts(self, demand: WaitingDemand, in_progress: InProgress) -> list[_Attempt]:
        """Return the attempts to have pods evicted for a demand, the best first."""
        reclaim = self._guarantees.reclaim_rule(demand, in_progress.ahead, in_progress.going)
        mode = self._snapshot.managed.policy(demand.claims[0]).preemption.mode
        by_priority = _NOBODY if mode is PreemptionMode.NEVER else _LOWER_PRIORITY
        found = [_Attempt(reclaim.within, by_priority, reclaim)] if reclaim.within is not None else []
        if by_priority is not _NOBODY:
            found.append(_Attempt(demand, by_priority, replace(reclaim, within=None)))
        return found


def _chosen(attempt: _Attempt, possible: PossibleVictims, victims: VictimSet | GangVictims) -> Chosen:
    """Return the pods behind victims, and which of them have borrowed what is taken back."""
    pods: dict[str, Pod] = {}
    borrowers: dict[str, str] = {}
    for each in victims.victims:
        own = possible.groups[each.group] if each.group in victims.groups else possible.pods[each.key]
        pods |= {pod.uid: pod for pod in own}
        holder = possible.holders[each.key]
        if own and not attempt.by_priority.may_go(holder, attempt.demand):
            borrowers |= dict.fromkeys([pod.uid for pod in own], attempt.reclaim.borrower(holder.claims))
    quota = attempt.reclaim.quota if borrowers else ""
    return Chosen(victims, tuple(pods.values()), attempt.demand.asked, quota, borrowers)


def _decisions(victims: VictimSet | GangVictims) -> tuple[Decision, ...]:
    return victims.decisions if isinstance(victims, GangVictims) else (victims.decision,)


def _together(decisions: Sequence[Decision]) -> Decision:
    """Return decisions as one, for what is charged for them together."""
    allocations = tuple(each for decision in decisions for each in decision.allocations)
    return Decision(decisions[0].node, allocations)
