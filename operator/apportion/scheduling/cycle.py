"""Cycle: the one task that acts.

In: the snapshot, whose changes wake it. Out: written allocations, removed gates, cleared allocations, reservations of
layouts. One task needs no locks and cannot race itself; what it decided is assumed at once, written in the background,
and forgotten when the write fails. A pass is done in slices, between which others run: watches, writes, the lease.
"""

import asyncio
import math
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator

import structlog

from apportion import metrics
from apportion.allocator.nodeoutcomes import precompute
from apportion.allocator.preparation import Work
from apportion.cluster.debouncer import Debouncer
from apportion.cluster.recorder import Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.scheduling.autoscaling.autoscaling import Autoscaling
from apportion.scheduling.backfill.reservation import Reservation
from apportion.scheduling.candidates.exclusions import Exclusions
from apportion.scheduling.candidates.preparing import Preparing, evaluate
from apportion.scheduling.candidates.stillprepared import StillPrepared
from apportion.scheduling.clearing.clearing import Overlaps
from apportion.scheduling.clearing.takebacks import TakeBacks
from apportion.scheduling.clearing.tidying import Tidying
from apportion.scheduling.deciding.decider import Decider
from apportion.scheduling.deciding.groupdecider import GroupDecider
from apportion.scheduling.defrag.places import HeldPlaces
from apportion.scheduling.demands.extendedresources import ExtendedResources
from apportion.scheduling.demands.groups import WaitingGroup
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.demands.waitingqueue import WaitingQueue
from apportion.scheduling.events import events, unservedevents
from apportion.scheduling.optionalsteps import OptionalSteps
from apportion.scheduling.partitioncontrol import PartitionControl
from apportion.scheduling.preemption.evictions import Evicting
from apportion.scheduling.preemption.guarantees import Guarantees
from apportion.scheduling.preemption.heldclaims import HeldClaims
from apportion.scheduling.preemption.holders import Holders
from apportion.scheduling.preemption.preemptions import Preemptions
from apportion.scheduling.reports.reports import Reports
from apportion.scheduling.walk.hopelessdemands import HopelessDemands
from apportion.scheduling.walk.queuewalk import QueueWalk
from apportion.scheduling.writing.backgroundwrites import BackgroundWrites
from apportion.scheduling.writing.gates import Gates
from apportion.scheduling.writing.ranktables import RankTables
from apportion.settings import CycleSettings

_log = structlog.get_logger()
SLICE = 0.03
"""Seconds of work after which a pass lets others run; one decision is not interrupted."""
LONGEST = 0.5
"""Seconds after which deciding ends early, so that gates are removed and new demands are seen."""
_LONGEST_REST = 0.1
"""Seconds at most for which the cycle rests after a pass that granted nothing: as long as it took, but for what was new."""
_BUSY = 0.2
"""Seconds after the beginning of a pass for which costly selectors are evaluated slowly."""
_PAUSE = 0.003
"""Seconds that others get in between; a request to the API server takes several turns of the event loop."""


class Cycle:
    """Acts on the snapshot, in passes; observing is done elsewhere."""

    def __init__(
        self,
        snapshot: Snapshot,
        writes: BackgroundWrites,
        partitions: PartitionControl,
        recorder: Recorder,
        debouncer: Debouncer,
        *,
        evictor: Evicting,
        settings: CycleSettings,
        clock: Callable[[], float],
        manager: str,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`now`: seconds since 1970, in which pods say when they started."""
        self._snapshot = snapshot
        self._writes = writes
        self._partitions = partitions
        self._recorder, self._debouncer, self._settings = recorder, debouncer, settings
        self._clock, self._manager = clock, manager
        self._exclusions = Exclusions(clock)
        still_prepared = StillPrepared(snapshot, clock)
        decider = Decider(
            snapshot,
            writes,
            recorder,
            self._exclusions,
            still_prepared,
            clock=clock,
            manager=manager,
            now=now,
        )
        self.decider, self.quotas = decider, decider.quotas
        self._preparing = Preparing(snapshot, budget=settings.selectors, clock=clock, wake=debouncer.wake)
        self.places = HeldPlaces(decider, clock, self._may_be_asked, self._preparing.is_awaited)
        """What is held for pods that move."""
        guarantees = Guarantees(snapshot, decider.quotas)
        self._groups = group_decider = GroupDecider(decider, clock)
        self.preemptions = Preemptions(
            decider,
            Holders(HeldClaims(snapshot, now, manager, guarantees)),
            guarantees,
            evictor,
            clock=clock,
            wake=debouncer.wake,
            is_begun=group_decider.is_begun,
            is_evaluated=self._may_be_asked,
            is_awaited=self._preparing.is_awaited,
        )
        self._deciding = False
        """Whether a pass is under way."""
        self._queue = QueueWalk(
            snapshot,
            partitions,
            recorder,
            decider,
            group_decider,
            self._preparing,
            clock=clock,
            pressing=lambda: debouncer.awake and self._deciding,
            before=self.preemptions.take_over,
        )
        lifted, is_evaluated = self.decider.reservations.all_lifted, self._may_be_asked
        self._tidying = Tidying(
            decider, self._exclusions, writes, clock, manager=manager, is_evaluated=is_evaluated
        )
        self._waiting, self._gates = WaitingQueue(snapshot), Gates(snapshot)
        self._rank_tables = RankTables(snapshot, recorder)
        self._take_backs = TakeBacks(snapshot, recorder, self._exclusions, still_prepared, self._rank_tables)
        self._autoscaling = Autoscaling(
            snapshot, clock, over=self.quotas.over, is_evaluated=is_evaluated, lifted=lifted
        )
        HopelessDemands(decider, clock, is_evaluated, lifted, debouncer.wake)
        self._number, self._is_walked, self._optional = 0, True, OptionalSteps(clock)
        self._extended, self._overlaps = ExtendedResources(snapshot, clock), Overlaps(snapshot)
        self._reports = Reports(snapshot, recorder, self._gates, self._extended, clock, manager=manager)
        self._last = self._gathered = clock()

    @property
    def reserved(self) -> Collection[Reservation]:
        """Return what is reserved for the first of the queue."""
        return self.decider.reservations.reserved

    def age(self) -> float:
        """Seconds since the last pass began."""
        return self._clock() - self._last

    async def run(self) -> None:
        """Act until cancelled; writes that are under way are waited for."""
        for _ in self._take_backs.skip():
            await asyncio.sleep(0)
        self._tidying.begin()
        self.decider.begin_anew()
        self._writes.gate_removals.begin_anew()
        evaluating = asyncio.create_task(
            evaluate(
                self._preparing,
                clock=self._clock,
                pressing=lambda: self._deciding or self.age() < _BUSY,
            )
        )
        try:
            while not evaluating.done():
                await self._debouncer.burst(
                    within=max(0.0, min(self._settings.idle, self._queue.resumes - self._clock()))
                )
                await self._in_slices()
                in_vain = self._queue.in_vain(self._clock() - self._gathered)
                await asyncio.sleep(min(in_vain, _LONGEST_REST))
            await evaluating
        finally:
            evaluating.cancel()
            await self.preemptions.end()
            self._queue.abandon()
            await self._writes.finished()

    def once(self) -> None:
        """One whole pass, however long: decide for all that waits, then tidy up."""
        for work in self._pass(longest=math.inf, evaluates=True):
            if work is not None:
                work()

    async def _in_slices(self) -> None:
        ends = self._clock() + SLICE
        self._deciding = True
        for _ in self._pass(longest=LONGEST, evaluates=False):
            if self._clock() >= ends:
                await asyncio.sleep(_PAUSE)
                ends = self._clock() + SLICE
        self._deciding = False

    def _pass(self, *, longest: float, evaluates: bool) -> Iterator[Work | None]:
        """One pass; yields wherever others may run, and may have changed the snapshot when it goes on.

        Work that it yields has to be done before it goes on; it may be done in another thread.

        `longest`: seconds after which deciding ends early. `evaluates`: costly selectors are evaluated within the pass.
        """
        self._number += 1
        self._last = self._clock()
        metrics.CYCLES.inc()
        with metrics.CYCLE_SECONDS.time():
            # 1. What became of writes without an answer, and what did others do to our allocations?
            self._writes.settle()
            yield from self._take_backs.note()
            self._settle_overlaps()
            yield None

            # 2. What waits, and what can never be served?
            demands, unservable = yield from self._waiting.gather()
            self._gathered = self._clock()
            yield None
            yield from self._extended.steps()
            self._writes.make(self._extended.templates())
            yield from self._optional.do("reports", self._reports.tell(len(demands), unservable))
            yield from self.decider.candidates.reading()
            yield from self.preemptions.begin(demands)
            self.places.begin(demands)
            yield None

            # 3. to 5. Decide one at a time; each decision is assumed before the next one is made.
            news, self._is_walked = self._waiting.news(anew=not self._is_walked), False
            self._autoscaling.follow(*news)
            for work in self._queue.walk(self._number, *news, longest=longest, evaluates=evaluates):
                yield work
                if self._snapshot.deallocations:
                    yield from self._take_backs.note()
            stopped, self._is_walked = self.decider.searches.stopped, True
            # Not while a group is being decided: what it holds is its own, and looks like others'.
            if not self._groups.busy:
                yield from self.decider.candidates.reading()
                decided = (each for each in demands if each.key not in stopped)
                considered = self.preemptions.consider(*self._reached(decided), longest=longest)
                yield from self._optional.do("preemption", considered)
                yield None

            # 6. Let autoscalers see pods that only a new node would serve.
            shown = yield from self._optional.do("autoscaling", self._autoscaling.look())
            for pod, why in (shown or {}).values():
                if why:
                    unservedevents.shown_to_autoscalers(self._recorder, pod, why)
                self._writes.show(pod, why)
            if self._queue.ended_early or stopped or self.preemptions.go_on or self._autoscaling.go_on:
                self._debouncer.wake()

            # 7. Remove gates of pods whose allocations the watch has shown, and clear what no pod wants.
            contested = self._settle_overlaps() | self._writes.clearing | self.preemptions.taken_back
            pods = yield from self._gates.open(
                contested=contested, phase=self._partitions.phase, ungating=self._writes.ungating
            )
            self._writes.ungate(pods, self._rank_tables.of)
            self._writes.protections.begin(self._gates.unprotected.values())
            yield None
            within = (demand for demand in demands if demand.key not in self.quotas.over)
            yield from self._optional.do("tidying", self._tidying.tidy(within, self._gates.awaited.values()))
            ahead = self._ahead(self._clock() + longest)
            if not demands and (yield from self._optional.do("ahead", ahead)):
                self._debouncer.wake()
        if self._queue.granted:
            _log.info("cycle.decided", cycle=self._number, granted=self._queue.granted, waiting=len(demands))

    def _ahead(self, ends: float) -> Generator[None, None, bool]:
        """Compute outcomes in advance until then, by the clock, or something happens; says whether some are left."""
        return precompute(self._snapshot.state, stops=lambda: self._debouncer.awake or self._clock() >= ends)

    def _reached(
        self, demands: Iterable[WaitingDemand]
    ) -> tuple[Iterable[WaitingDemand], Collection[WaitingGroup]]:
        """Return the demands, and the groups, that walks have looked at."""
        groups, reached = self._queue.groups, self._queue.reached()
        if reached is None:
            return demands, groups
        return (each for each in demands if each.key in reached), [
            each for each in groups if each.key in reached
        ]

    def _may_be_asked(self, demand: WaitingDemand) -> bool:
        """Say whether others than the walk may ask the allocator about a demand: its selectors are evaluated, and deciding did not break down at it."""
        return demand.key not in self.decider.refusals.defects and self._preparing.is_done(demand)

    def _settle_overlaps(self) -> frozenset[str]:
        """Clear or report overlapping allocations; returns the UIDs of their claims."""
        found = self._overlaps.find()
        metrics.OVERLAPS.set(len(found))
        for overlap in found:
            owns = self._snapshot.managed.owns
            ours = [each for each in overlap.untaken if each.allocated_by == self._manager or owns(each)]
            if ours:
                events.overlap_cleared(self._recorder, ours[-1], overlap.what)
                self._writes.clear(ours[-1], f"{overlap.what} was allocated twice", "overlap")
            elif not overlap.untaken:
                events.overlap_stuck(self._recorder, overlap.claims, overlap.what)
        return frozenset(claim.uid for overlap in found for claim in overlap.claims)
