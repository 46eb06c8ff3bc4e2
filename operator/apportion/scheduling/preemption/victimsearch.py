"""VictimSearch: whom to evict for a demand or a group, asked of the allocator.

In: one that was refused, who has devices, what is under way. Out: the cheapest victims with the pods to evict, or why there are none. At
most MOST_NODES nodes are looked at in one search; where there are more, the next one goes on behind them. Victims are
searched in steps, between which others may run; what is found is true when the search ends.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import replace

from apportion.allocator.decision import Decision
from apportion.allocator.policyterms import terms_of
from apportion.allocator.preemption.findgangvictims import GangVictims
from apportion.allocator.preemption.findvictims import MOST_NODES, victim_steps
from apportion.allocator.preemption.severalnodes import SeveralNodes
from apportion.allocator.preemption.victims import NodeVictims, VictimSet
from apportion.errors import BrokenInput
from apportion.scheduling.deciding.decider import Decider
from apportion.scheduling.demands.waiting import WaitingDemand, is_current
from apportion.scheduling.preemption.asking import Asking
from apportion.scheduling.preemption.attempt import NOBODY, Attempt, by_priority
from apportion.scheduling.preemption.chosen import Chosen, chosen_by, decisions_of, pods_of, together
from apportion.scheduling.preemption.cooldown import Cooldown
from apportion.scheduling.preemption.eligibility import AnyOf
from apportion.scheduling.preemption.groupvictims import (
    AskedGroup,
    asked_of,
    looked_at,
    victims_of,
)
from apportion.scheduling.preemption.guarantees import Guarantees
from apportion.scheduling.preemption.holders import ClaimsByNode, Holders, PossibleVictims
from apportion.scheduling.preemption.inprogress import InProgress
from apportion.scheduling.preemption.preemptor import Preemptor
from apportion.scheduling.preemption.windows import Window
from apportion.scheduling.quota.admission import TRIES
from apportion.scheduling.quota.batch import BatchAdmission
from apportion.scheduling.quota.overlimit import OverLimit
from apportion.scheduling.room.neighbours import are_related
from apportion.scheduling.room.obstacles import Obstacles, holds_devices

_STEP = 0.01
"""Seconds after which a search for a group lets others run: what it holds is given back for that, and held once more afterwards."""


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
        self._quotas = BatchAdmission(decider.quotas, decider.snapshot.devices.device)
        self._holders = holders
        self._guarantees = guarantees
        self._cooldown = cooldown
        self._clock = clock
        self._resumed = 0.0
        """When the present step began."""

    def claims(self) -> Generator[None, None, ClaimsByNode]:
        """Return the claims whose devices could be taken back; yields where others may run."""
        return self._holders.by_node()

    def search(
        self,
        preemptor: Preemptor,
        found: ClaimsByNode,
        only: frozenset[str] | None,
        in_progress: Callable[[], InProgress],
        window: Window,
        *,
        evicts: bool,
    ) -> Generator[None, None, Chosen | Counter[str] | None]:
        """Return the cheapest victims; where there are none, or none are needed, why pods stay that a quota would let go; None: who waits has changed.

        `only`: the nodes that count (None: all). `in_progress`: says what is being done now. `window` chooses the nodes to look at. `evicts`: else nobody is evicted, and what ends anyway is looked for. Yields where others may run.
        """
        quotas = self._decider.quotas
        if quotas.excess(preemptor.demand) is not None:
            return Counter()  # what waits for its quota takes nothing from anybody
        demand = replace(preemptor.demand, asked=quotas.asked(preemptor.members))
        taken = found.claims.keys() if evicts else found.ending
        asking = self._asking(preemptor, found, taken, only, window, in_progress())
        if asking is None:
            return Counter()
        left_alone: Counter[str] = Counter()
        attempts = deque(self._attempts(demand, asking.now) if evicts else [Attempt(demand, NOBODY)])
        while attempts:
            attempt = attempts.popleft()
            possible, victims = yield from self._victims(asking, attempt)
            if not all(is_current(member, self._snapshot) for member in preemptor.members):
                return None
            if attempt.takes_back:
                left_alone = sum((each.left_alone for each in possible.values()), Counter())
            if victims is None or not self._still_suit(preemptor, possible, victims):
                continue
            now = in_progress()
            attempt = self._renewed(attempt, demand, now)
            with self._decider.reservations.lifted(preemptor.head):
                going = self._still_going(replace(asking, now=now), attempt, possible, victims)
            if going is None:
                continue
            decision = together(decisions_of(victims))
            if not self._allows(preemptor, attempts, attempt, decisions_of(victims), now):
                continue
            chosen = chosen_by(attempt, going, victims)
            if chosen.borrowers:
                if self._guarantees.stays_within(demand, decision, now.ahead):
                    return chosen
            elif attempt.reclaim.free is None or self._guarantees.rises(demand, decision, attempt.reclaim):
                return chosen
            else:
                attempts.append(replace(attempt, reclaim=replace(attempt.reclaim, free=None)))
        return left_alone

    def _allows(
        self,
        preemptor: Preemptor,
        attempts: deque[Attempt],
        attempt: Attempt,
        decisions: Sequence[Decision],
        now: InProgress,
    ) -> bool:
        """Say whether limits and agents allow what members get, beside what is promised to others; if it is a limit that does not, the next of the attempts asks for less of it."""
        try:
            for member, own in zip(preemptor.members, decisions, strict=True):
                self._decider.admissible.check(member, own)
            parts = preemptor.parts(attempt.demand.asked)
            found = self._quotas.group_within(parts, decisions, now.promised)
        except (BrokenInput, OverLimit):
            return False  # the one who decides about the demand meets it again, and says so
        if found.less and attempt.narrowed < TRIES:
            attempts.appendleft(attempt.asking(claim for each in found.less for claim in each.asked))
        return found.excess is None

    def _asking(
        self,
        preemptor: Preemptor,
        found: ClaimsByNode,
        nodes: Collection[str],
        only: frozenset[str] | None,
        window: Window,
        now: InProgress,
    ) -> Asking | None:
        """Return what to ask; `nodes`: those from which somebody may go, of which `window` chooses some. None: no node of these suits the pods."""
        candidates = self._decider.candidates
        capacity = candidates.capacity()
        obstacles = Obstacles(preemptor.demand.pods, candidates.neighbours)
        # Each is read once for all nodes; who is chosen is compared with them as they are then.
        running = self._holders.groups(now)
        if preemptor.group is not None:
            group = asked_of(preemptor, self._decider, capacity, only)
            if group is None:
                return None
            taken, others = looked_at(group, nodes, window, self._snapshot.state)
            rows = {name: found.claims[name] for name in taken} | {name: [] for name in others}
            return Asking(preemptor, group, rows, obstacles, now, running)
        if only is not None:
            nodes = only.intersection(nodes)
        asked = candidates.ask_with_victims(preemptor.demand, capacity, nodes, holds_devices)
        if asked is None:
            return None
        rows = {name: found.claims[name] for name in window.of(sorted(asked.nodes or ()), MOST_NODES)}
        return Asking(preemptor, asked, rows, obstacles, now, running)

    def _victims(
        self, asking: Asking, attempt: Attempt
    ) -> Generator[None, None, tuple[Mapping[str, PossibleVictims], VictimSet | GangVictims | None]]:
        """Return who may go in an attempt, by node, and the cheapest victims among them; None: there are none, or the demand is broken."""
        demand, asked, candidates = asking.preemptor.demand, asking.asked, self._decider.candidates
        wanted = asking.wanted(demand, self._snapshot)
        possible: dict[str, PossibleVictims] = {}

        def read(node: str) -> NodeVictims:
            possible[node] = self._read(asking, attempt, node, wanted)
            return possible[node].node

        names, claims = [*asking.claims], attempt.demand.asked
        steps: Generator[None, None, VictimSet | GangVictims | None]
        try:
            if isinstance(asked, AskedGroup):
                steps = victims_of(
                    asked,
                    claims,
                    names,
                    read,
                    lambda member: asking.wanted(member, self._snapshot),
                    self._decider,
                    self._pauses,
                )
            else:
                terms = terms_of(self._snapshot.managed.policy(demand.claims[0]))
                ask, prefer = replace(asked, claims=claims), candidates.idle
                steps = victim_steps(
                    self._snapshot.state, ask, names, read, wanted=wanted, terms=terms, prefer=prefer
                )
            return possible, (yield from self._lifting(asking.preemptor, steps))
        except BrokenInput:
            return possible, None

    def _read(self, asking: Asking, attempt: Attempt, node: str, wanted: Iterable[str]) -> PossibleVictims:
        """Return who may go on a node as it is now."""
        rule = AnyOf([attempt.by_priority, attempt.reclaim]) if attempt.takes_back else attempt.by_priority
        demand, own, off = asking.preemptor.demand, asking.claims[node], asking.obstacles.on(node)
        room, cooldown = self._decider.candidates.capacity(), self._cooldown
        reclaim, now, groups = attempt.reclaim, asking.now, asking.groups
        return self._holders.read(demand, node, own, room, rule, reclaim, cooldown, now, wanted, off, groups)

    def _renewed(self, attempt: Attempt, demand: WaitingDemand, now: InProgress) -> Attempt:
        """Return an attempt with what quotas have now: others ran while victims were searched."""
        reclaim = self._guarantees.reclaim_rule(demand, now.ahead, now.going)
        free = reclaim.free if attempt.reclaim.free is not None else None
        return replace(attempt, reclaim=replace(reclaim, within=attempt.reclaim.within, free=free))

    def _still_going(
        self,
        asking: Asking,
        attempt: Attempt,
        possible: Mapping[str, PossibleVictims],
        victims: VictimSet | GangVictims,
    ) -> Collection[PossibleVictims] | None:
        """Return victims that were found in an attempt as they are now; None: not all of them may go by it now, or the pods have no room then."""
        needs: dict[str, Counter[str]] = {}
        for member, decision in zip(asking.preemptor.members, decisions_of(victims), strict=True):
            needs.setdefault(decision.node, Counter()).update(asking.wanted(member, self._snapshot))
        wanted = frozenset().union(*needs.values())
        keys = {each.key for each in victims.victims}
        nodes = needs.keys() | {node for node, each in possible.items() if not keys.isdisjoint(each.holders)}
        asking = replace(asking, groups=self._holders.groups(asking.now))
        found = [self._read(asking, attempt, node, wanted) for node in sorted(nodes)]
        now = SeveralNodes([each.node for each in found])
        going = frozenset(place for place in now.all if now.victim(place).key in keys)
        room = {name: Counter(each.left) for name, each in now.nodes.items()}
        for place in going:
            room[place[0]].update(now.victim(place).freed)
        fits = all(
            not amount or room[node][name] >= amount
            for node, need in needs.items()
            for name, amount in need.items()
        )
        same = len(going) == len(keys) and now.broken(going) == victims.groups
        return found if fits and same and now.allows(going) else None

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

    def _still_suit(
        self,
        preemptor: Preemptor,
        possible: Mapping[str, PossibleVictims],
        victims: VictimSet | GangVictims,
    ) -> bool:
        """Say whether the nodes that were found suit the pods, all of them together, once the victims are gone, whose company they may need."""
        candidates = self._decider.candidates
        rows = list(zip(preemptor.members, decisions_of(victims), strict=True))
        placed = [(pod, decision.node) for member, decision in rows for pod in member.pods]
        apart = placed if len(rows) > 1 and are_related(pod for pod, _ in placed) else []
        with candidates.placed.without(pods_of(possible.values(), victims)):
            try:
                for pod, node in apart:
                    candidates.placed.place(pod, node)
                return all(
                    candidates.ask_with_victims(member, candidates.capacity(), [decision.node]) is not None
                    for member, decision in rows
                )
            finally:
                for pod, _ in apart:
                    candidates.placed.place(pod, None)

    def _attempts(self, demand: WaitingDemand, in_progress: InProgress) -> list[Attempt]:
        """Return the attempts to have pods evicted for a demand, the best first."""
        reclaim = self._guarantees.reclaim_rule(demand, in_progress.ahead, in_progress.going)
        rule = by_priority(demand, self._snapshot.managed)
        found = [Attempt(reclaim.within, rule, reclaim)] if reclaim.within is not None else []
        if rule is not NOBODY:
            found.append(Attempt(demand, rule, replace(reclaim, within=None)))
        return found
