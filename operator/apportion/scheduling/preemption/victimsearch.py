"""VictimSearch: whom to evict for a demand or a group, asked of the allocator.

In: one that was refused, who has devices, what is under way. Out: the cheapest victims with the pods to evict, or why there are none. At
most MOST_NODES nodes are looked at in one search; where there are more, the next search begins behind them. Victims are
searched in steps, between which others may run; what is found is true when the search ends.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.policyterms import terms_of
from apportion.allocator.preemption.findgangvictims import GangVictims
from apportion.allocator.preemption.findvictims import MOST_NODES, victim_steps
from apportion.allocator.preemption.victims import NodeVictims, VictimSet
from apportion.api.policy import PreemptionMode
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod
from apportion.errors import BrokenInput
from apportion.scheduling.candidates import unplaced
from apportion.scheduling.decider import Decider
from apportion.scheduling.podneeds import total
from apportion.scheduling.preemption.attempt import LOWER_PRIORITY, NOBODY, Attempt
from apportion.scheduling.preemption.cooldown import Cooldown
from apportion.scheduling.preemption.eligibility import AnyOf
from apportion.scheduling.preemption.groupvictims import (
    MOST_TAKEN,
    AskedGroup,
    asked_of,
    looked_at,
    victims_of,
)
from apportion.scheduling.preemption.guarantees import Guarantees
from apportion.scheduling.preemption.holders import ClaimsByNode, Holders, PossibleVictims
from apportion.scheduling.preemption.preemptor import Preemptor
from apportion.scheduling.quota.overlimit import OverLimit
from apportion.scheduling.waiting import WaitingDemand, is_current

_STEP = 0.01
"""Seconds after which a search for a group lets others run: what it holds is given back for that, and held once more afterwards."""


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
    claims: Mapping[str, Sequence[str]]
    """By node the claims (UIDs) that could be taken back."""


class VictimSearch:
    """Searches for one demand at a time."""

    def __init__(
        self,
        decider: Decider,
        holders: Holders,
        guarantees: Guarantees,
        cooldown: Cooldown,
        clock: Callable[[], float],
    ) -> None:
        self._decider = decider
        self._snapshot = decider.snapshot
        self._holders = holders
        self._guarantees = guarantees
        self._cooldown = cooldown
        self._clock = clock
        self._resumed = 0.0
        """When the present step began."""
        self._turn = 0
        """Where the next search begins among the nodes, if there are too many."""

    def claims(self) -> Generator[None, None, ClaimsByNode]:
        """Return the claims whose devices could be taken back; yields where others may run."""
        return self._holders.by_node()

    def search(
        self,
        preemptor: Preemptor,
        found: ClaimsByNode,
        only: frozenset[str] | None,
        in_progress: InProgress,
        *,
        evicts: bool,
    ) -> Generator[None, None, Chosen | Counter[str] | None]:
        """Return the cheapest victims; where there are none, or none are needed, why pods stay that a quota would let go; None: who waits has changed.

        `only`: the nodes that count (None: all). `evicts`: else nobody is evicted, and what ends anyway is looked for. Yields where others may run.
        """
        demand = preemptor.demand
        try:
            self._decider.quotas.check(demand)
        except OverLimit:
            return Counter()  # what waits for its quota takes nothing from anybody
        taken = found.claims.keys() if evicts else found.ending
        asking = self._asking(preemptor, found, taken, only)
        if asking is None:
            return Counter()
        left_alone: Counter[str] = Counter()
        attempts = deque(self._attempts(demand, in_progress) if evicts else [Attempt(demand, NOBODY)])
        while attempts:
            attempt = attempts.popleft()
            possible, victims = yield from self._victims(asking, attempt)
            if not all(is_current(member, self._snapshot) for member in preemptor.members):
                return None
            if attempt.takes_back:
                left_alone = sum((each.left_alone for each in possible), Counter())
            if victims is None or not self._still_suits(demand, victims):
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
    ) -> _Asking | None:
        """Return what to ask; `nodes`: those from which somebody may go. None: no node of these suits the pods."""
        capacity = self._decider.candidates.capacity()
        if preemptor.group is not None:
            group = asked_of(preemptor, self._decider, capacity, only)
            if group is None:
                return None
            taken, others = looked_at(group.nodes, nodes, self._turn)
            self._turn += MOST_TAKEN
            rows = {name: found.claims[name] for name in taken} | {name: [] for name in others}
            return _Asking(preemptor, group, rows)
        if only is not None:
            nodes = only.intersection(nodes)
        asked = self._decider.candidates.ask_with_victims(preemptor.demand, capacity, nodes)
        if asked is None:
            return None
        names = sorted(asked.nodes or ())
        first = self._turn % len(names) if len(names) > MOST_NODES else 0
        self._turn += MOST_NODES
        rows = {name: found.claims[name] for name in (names[first:] + names[:first])[:MOST_NODES]}
        return _Asking(preemptor, asked, rows)

    def _victims(
        self, asking: _Asking, attempt: Attempt
    ) -> Generator[None, None, tuple[Collection[PossibleVictims], VictimSet | GangVictims | None]]:
        """Return who may go in an attempt, and the cheapest victims among them; None: there are none, or the demand is broken."""
        rule = AnyOf([attempt.by_priority, attempt.reclaim]) if attempt.takes_back else attempt.by_priority
        demand, asked, candidates = asking.preemptor.demand, asking.asked, self._decider.candidates
        wanted = total(unplaced(demand, self._snapshot))
        fixed = rule, attempt.reclaim, self._cooldown.spared, wanted
        possible: dict[str, PossibleVictims] = {}

        def read(node: str) -> NodeVictims:
            own, capacity = asking.claims[node], candidates.capacity()
            possible[node] = self._holders.read(demand, node, own, capacity, *fixed)
            return possible[node].node

        names, claims = [*asking.claims], attempt.demand.asked
        steps: Generator[None, None, VictimSet | GangVictims | None]
        try:
            if isinstance(asked, AskedGroup):
                steps = victims_of(asked, claims, names, read, self._decider, self._pauses)
            else:
                terms = terms_of(self._snapshot.managed.policy(demand.claims[0]))
                ask, prefer = replace(asked, claims=claims), candidates.idle
                steps = victim_steps(
                    self._snapshot.state, ask, names, read, wanted=wanted, terms=terms, prefer=prefer
                )
            return possible.values(), (yield from self._lifting(asking.preemptor, steps))
        except BrokenInput:
            return possible.values(), None

    def _pauses(self) -> bool:
        """Say whether a search for a group has done enough for one step."""
        return self._clock() - self._resumed >= _STEP

    def _lifting(
        self, preemptor: Preemptor, steps: Generator[None, None, VictimSet | GangVictims | None]
    ) -> Generator[None, None, VictimSet | GangVictims | None]:
        """Do these steps without what is reserved for who waits, which is held while others run."""
        while True:
            self._resumed = self._clock()
            with self._decider.reservations.lifted(preemptor.head):
                try:
                    next(steps)
                except StopIteration as end:
                    found: VictimSet | GangVictims | None = end.value
                    return found
            yield

    def _still_suits(self, demand: WaitingDemand, victims: VictimSet | GangVictims | None) -> bool:
        """Say whether there are victims whose node, if it was searched in steps, suits the pods as it did before."""
        if not isinstance(victims, VictimSet):
            return victims is not None
        candidates = self._decider.candidates
        return candidates.ask_with_victims(demand, candidates.capacity(), [victims.node]) is not None

    def _attempts(self, demand: WaitingDemand, in_progress: InProgress) -> list[Attempt]:
        """Return the attempts to have pods evicted for a demand, the best first."""
        reclaim = self._guarantees.reclaim_rule(demand, in_progress.ahead, in_progress.going)
        mode = self._snapshot.managed.policy(demand.claims[0]).preemption.mode
        by_priority = NOBODY if mode is PreemptionMode.NEVER else LOWER_PRIORITY
        found = [Attempt(reclaim.within, by_priority, reclaim)] if reclaim.within is not None else []
        if by_priority is not NOBODY:
            found.append(Attempt(demand, by_priority, replace(reclaim, within=None)))
        return found


def _chosen(
    attempt: Attempt, possible: Collection[PossibleVictims], victims: VictimSet | GangVictims
) -> Chosen:
    """Return the pods behind victims, and which of them have borrowed what is taken back."""
    pods: dict[str, Pod] = {}
    borrowers: dict[str, str] = {}
    groups = {key: own for each in possible for key, own in each.groups.items()}
    single = {key: own for each in possible for key, own in each.pods.items()}
    holders = {key: holder for each in possible for key, holder in each.holders.items()}
    for each in victims.victims:
        own = groups[each.group] if each.group in victims.groups else single[each.key]
        pods |= {pod.uid: pod for pod in own}
        holder = holders[each.key]
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
