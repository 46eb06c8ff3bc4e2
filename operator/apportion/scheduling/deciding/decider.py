"""Decider: one demand at a time, served or refused with the reasons.

In: a demand, the capacity of nodes. Out: a decision that is assumed at once and written in the background; or an Event.
"""

import time
from collections.abc import Callable, Collection, Generator, Iterable
from dataclasses import replace
from functools import partial
from itertools import chain

from apportion import metrics
from apportion.allocator.allocate import allocate, decide
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.policyterms import terms_of
from apportion.cluster.recorder import Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.errors import BrokenInput
from apportion.scheduling.backfill.furthernodes import FurtherNodes
from apportion.scheduling.backfill.reservations import Reservations
from apportion.scheduling.candidates.admissible import Admissible
from apportion.scheduling.candidates.asking import Asking, ChangedMeanwhile
from apportion.scheduling.candidates.candidates import Candidates
from apportion.scheduling.candidates.exclusions import Exclusions
from apportion.scheduling.candidates.searchturns import SearchStopped, SearchTurns
from apportion.scheduling.candidates.stillprepared import StillPrepared
from apportion.scheduling.deciding.planner import Planner
from apportion.scheduling.deciding.refusals import Refusals
from apportion.scheduling.deciding.tiedclaims import TiedClaims
from apportion.scheduling.demands.podneeds import requested
from apportion.scheduling.demands.shape import Shape
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.events import events
from apportion.scheduling.quota.admission import Admission
from apportion.scheduling.quota.overlimit import OverLimit
from apportion.scheduling.room.hostcapacity import HostCapacity
from apportion.scheduling.room.noderoom import unplaced
from apportion.scheduling.writing.backgroundwrites import BackgroundWrites


class Decider:
    """Decides demands that belong to no group."""

    def __init__(
        self,
        snapshot: Snapshot,
        writes: BackgroundWrites,
        recorder: Recorder,
        exclusions: Exclusions,
        still_prepared: StillPrepared,
        *,
        clock: Callable[[], float],
        manager: str,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`now`: seconds since 1970, in which pods say when they started."""
        self.snapshot = snapshot
        self.writes, self.recorder, self.manager = writes, recorder, manager
        self.candidates = Candidates(snapshot, exclusions, still_prepared)
        self.refusals = Refusals(snapshot, exclusions, still_prepared, clock=clock)
        self.searches = SearchTurns(clock)
        self.planner = Planner(snapshot, self.candidates, self.searches)
        self._asking = Asking(snapshot, self.candidates, self.searches, self.planner.begin)
        self.quotas = Admission(snapshot, recorder, clock)
        self.admissible = Admissible(snapshot, self.candidates, self.quotas)
        self.reservations = Reservations(
            snapshot, self.candidates, self.admissible, self.quotas, recorder, clock=clock, now=now
        )
        self.further = FurtherNodes(snapshot, self.candidates, self.reservations, self._asking)
        self.set_aside: frozenset[str] = frozenset()
        """Demands (keys) that are served by somebody else, and get nothing in the queue."""
        self.before_grant: Callable[[WaitingDemand], None] = lambda _: None
        """Called before what was chosen for a demand of the queue is granted; what it raises, `decide` does."""
        self._tied = TiedClaims(snapshot, writes, manager=manager)
        self._clock, self._first_seen = clock, dict[str, float]()
        self._learnt: set[str] = set()
        """Waiting demands that the allocator has learnt."""

    def begin_anew(self) -> None:
        """Begin to act: for how long demands waited while another replica acted was not looked at."""
        self._first_seen = dict.fromkeys(self._first_seen, self._clock())

    def begin(self, number: int, gone: Collection[str], came: Collection[WaitingDemand]) -> None:
        """Start the pass of this number; `gone`: demands that went or changed (by key), `came`: those that came or changed."""
        self.candidates.begin(number)
        self.planner.begin()
        now, kept = self._clock(), {demand.key for demand in came}
        over = [key for key in gone if key not in kept]
        for key in over:
            self._first_seen.pop(key, None)
            if key in self.reservations:
                # Before others may run: a pass that ends there, because the lease is lost, would leave it for ever.
                self.reservations.drop(key)
        self._learnt.difference_update(over)
        self.refusals.forget(over)
        self.refusals.doubt(key for key in gone if key in kept)
        for key in kept:
            self._first_seen.setdefault(key, now)
        self.refusals.refresh()

    def waits_for(self, key: str) -> float:
        """Return for how many seconds a demand has been seen to wait."""
        return self._clock() - self._first_seen.get(key, self._clock())

    def rests(self, key: str) -> bool:
        """Say whether a demand backs off: its last write failed, it was refused and nothing happened since, or it is set aside."""
        return self.writes.paused(key) or self.refusals.stands(key) or key in self.set_aside

    def decide(self, demand: WaitingDemand, capacity: HostCapacity) -> Generator[None, None, int]:
        """Serve one demand or say why not; returns how many claims were granted. Yields while nodes are searched."""
        if self.rests(demand.key):
            return 0
        try:
            return (yield from self._decide(demand, capacity))
        except (ChangedMeanwhile, SearchStopped):
            return 0
        except OverLimit as found:
            self.refusals.refuse(demand.key, "quota")
            self.quotas.report((demand,), found)
            self.reservations.drop(demand.key)
            self._tied.clear(demand)
            return 0
        except BrokenInput as error:
            self.refusals.refuse(demand.key, "broken")
            events.broken(self.recorder, demand, error)
            return 0

    def _decide(self, demand: WaitingDemand, capacity: HostCapacity) -> Generator[None, None, int]:
        turns = partial(self.searches.steps, demand.key, demand.claims[0].namespace)
        yield from self._asking.unchanged(demand, self.candidates.ahead_of(demand, capacity, turns))
        yield from self._asking.unchanged(demand, self.quotas.steps(demand))
        as_written = self.shape(demand)
        try:
            allowed = self.quotas.check(demand, as_written)
            shape = as_written if allowed is demand else self.shape(allowed)
            return (yield from self._decide_allowed(allowed, shape, as_written, capacity))
        except OverLimit:
            within = yield from self._asking.unchanged(demand, self.quotas.parts(demand))
            if granted := (yield from self._grant_part(demand, within, capacity)):
                return granted
            raise

    def _decide_allowed(
        self, demand: WaitingDemand, shape: Shape | None, as_written: Shape | None, capacity: HostCapacity
    ) -> Generator[None, None, int]:
        """Decide for what a quota leaves of a demand, its shape and that of the whole. Raises OverLimit: its devices take too much."""
        known = self.refusals.of_shape(shape)
        if known is not None:
            self.refusals.cover(demand, shape)
            return self._refuse(demand, known)
        if self.planner.rests(demand.key):
            return 0
        is_head = demand.key in self.reservations
        alike = self.alike(demand) if is_head else shape
        # What is reserved for a demand was told when it was.
        explained = is_head or self.refusals.is_explained(demand, shape)
        shut = explained and self.is_shut(alike, is_head=is_head)
        if shut and not self.reservations.offers(demand):
            self.refusals.refuse_with_shape(demand, alike)
            return 0
        terms = terms_of(self.snapshot.managed.policy(demand.claims[0]))
        follow = partial(self.planner.answer, demand.key) if self.planner.knows(demand.key) else None
        searched, no_node = None if shut else terms, self.planner.no_node(demand.key)
        asked, answer = yield from self.further.ask(demand, capacity, searched, no_node, follow)
        if isinstance(asked, str):
            return (yield from self._without(demand, capacity, alike, None if explained else asked))
        planned = answer is not None
        if answer is None and explained:
            answer = None if shut else decide(self.snapshot.state, asked, terms, prefer=self.candidates.idle)
            if answer is None:
                answer = yield from self.further.decide(demand, asked, terms, capacity, was_asked=not shut)
            if answer is None:
                return (yield from self._without(demand, capacity, alike, None))
        if answer is None:
            answer = allocate(self.snapshot.state, asked, terms, prefer=self.candidates.idle)
        if isinstance(answer, Refusal):
            further = yield from self.further.decide(demand, asked, terms, capacity, was_asked=not planned)
            answer = further or answer
        if isinstance(answer, Refusal):
            # A planned refusal keeps what others of this shape may have been promised.
            return (yield from self._without(demand, capacity, None if planned else shape, answer))
        search = partial(self._asking.about_less, demand, ask=partial(self.candidates.ask, demand, capacity))
        chosen = yield from self.admissible.steps(demand, asked, terms, answer, as_written, search)
        return self._take(demand, chosen, capacity)

    def _without(
        self,
        demand: WaitingDemand,
        capacity: HostCapacity,
        shape: Shape | None,
        refusal: Refusal | str | None,
    ) -> Generator[None, None, int]:
        """Serve some of the pods of a demand, or refuse it, and with it all of a shape (None: like no other); `refusal`: None if it was told."""
        if granted := (yield from self._grant_part(demand, (), capacity)):
            return granted
        if refusal is not None:
            return self._refuse_shape(demand, shape, refusal)
        self.refusals.refuse_with_shape(demand, shape)
        return 0

    def _grant_part(
        self, demand: WaitingDemand, within: Iterable[WaitingDemand], capacity: HostCapacity
    ) -> Generator[None, None, int]:
        """Serve the first that can be served of some of a demand's pods that share claims, those `within` its limit first; returns how many claims were granted."""
        parts = yield from self._asking.unchanged(demand, self.candidates.parts(demand, capacity))
        for part in chain(within, parts):
            terms = terms_of(self.snapshot.managed.policy(part.claims[0]))
            ask = partial(self.candidates.ask, part, capacity)
            ahead = self.candidates.ahead_of(part, capacity)
            asked = yield from self._asking.about(demand, terms, ask, ahead)
            if isinstance(asked, str):
                continue
            decision = decide(self.snapshot.state, asked, terms, prefer=self.candidates.idle)
            if decision is not None:
                try:
                    search = partial(self._asking.about_less, demand, ask=ask)
                    decision = yield from self.admissible.steps(part, asked, terms, decision, None, search)
                except OverLimit:
                    continue
                return self._take(part, decision, capacity)
        return 0

    def _take(self, demand: WaitingDemand, chosen: Decision, capacity: HostCapacity) -> int:
        """Grant what was chosen, if nobody objects; returns how many claims were granted."""
        self.before_grant(demand)
        self.learn(demand, chosen)
        self.grant(demand, chosen, capacity)
        return len(demand.claims)

    def shape(self, demand: WaitingDemand) -> Shape | None:
        """Return the shape by which a demand is refused; None where pods share claims: a part of them may fit; and where devices are reserved for it: others of its shape may not use them."""
        return None if demand.key in self.reservations else self.alike(demand)

    def alike(self, demand: WaitingDemand) -> Shape | None:
        """Return what decides the answer to a demand as long as it is offered nothing that is reserved for it; None as above."""
        if len(demand.pods) > 1:
            return None
        shape, runtime = self.candidates.shape(demand), self.reservations.runtime(demand)
        return shape if shape is None or runtime is None else replace(shape, runtime=runtime)

    def is_shut(self, alike: Shape | None, *, is_head: bool = False) -> bool:
        """Say whether a demand can have nothing but what is reserved: others were refused that differ from it only in what of that they may use.

        `is_head`: devices are reserved for it, which others of its shape may not use.
        """
        # A head that is not shut may get others of its node's equal devices: that is no reuse of what is known.
        if alike is None or not (is_head or self.reservations.reuse):
            return False
        if is_head and self.refusals.is_refused_shape(alike):
            return True
        return alike.runtime is not None and self.refusals.is_refused_shape(replace(alike, runtime=None))

    def _refuse_shape(self, demand: WaitingDemand, shape: Shape | None, refusal: Refusal | str) -> int:
        """Refuse a demand, and with it all of its shape (None: like no other). Returns how many claims were granted."""
        self.refusals.refuse_shape(shape, refusal, named=shape is not None and shape.named)
        self.refusals.cover(demand, shape)
        return self._refuse(demand, refusal)

    def _refuse(self, demand: WaitingDemand, refusal: Refusal | str) -> int:
        """Refuse a demand; the refusal may be that of another demand of its shape. Returns how many claims were granted."""
        if isinstance(refusal, str):
            self.refusals.refuse(demand.key, "no node")
            events.not_allocated(self.recorder, demand, refusal + self.quotas.note(demand))
        else:
            self.learn(demand, refusal)
            self.refusals.refuse(demand.key, refusal.verdict)
            why = refusal.explanation.named(tuple(claim.key for claim in demand.claims))
            events.refused(self.recorder, demand, why, self.snapshot, self.quotas.note(demand))
        self._tied.clear(demand)
        return 0

    def learn(self, demand: WaitingDemand, answer: Decision | Refusal) -> None:
        """Let the allocator learn what was asked for, once per demand however often it is tried."""
        if answer.asked is not None and demand.key not in self._learnt:
            self._learnt.add(demand.key)
            self.snapshot.state.learn(answer.asked, requested(demand.pods) if demand.pods else None)

    def end_reservation(self, key: str, nodes: Collection[str]) -> None:
        """End the reservation of a demand or group that gets its devices on these nodes; those behind it are asked about what it leaves on others."""
        leaves = self.reservations.leaves(key, nodes)
        self.reservations.drop(key)
        if leaves:
            self.refusals.reopen()
            self.planner.reopen()

    def grant(self, demand: WaitingDemand, decision: Decision, capacity: HostCapacity) -> None:
        """Assume a decision and have it written."""
        metrics.DECISIONS.labels("granted").inc()
        if self.planner.is_broken_by(demand.key, decision):
            # It may have what others were promised, and those who were refused for these may be served.
            self.planner.begin()
            self.snapshot.retry_epoch += 1
        self.end_reservation(demand.key, {decision.node})
        for pod in unplaced(demand, self.snapshot):
            capacity.take(decision.node, pod)
        pairs = list(zip(demand.claims, decision.allocations, strict=True))
        for claim, allocation in pairs:
            self.snapshot.assume(claim, allocation)
        self.writes.write(demand, pairs, since=self._first_seen.get(demand.key))
