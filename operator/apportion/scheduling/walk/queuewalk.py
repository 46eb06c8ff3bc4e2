"""QueueWalk: the deciding part of a pass, from the first of the queue to the last, in bounded slices of work.

In: the demands that wait. Out: decisions, assumed and being written; between two of them the caller may let
others run. What the snapshot shows is then looked at again: a demand that changed is left to the next pass, and the room of
nodes is read anew. A walk that lasts too long ends early; the next one begins where it stopped.
"""

from collections.abc import Callable, Collection, Generator, Iterator, Sequence

import structlog

from apportion.allocator.preparation import Work
from apportion.cluster.recorder import Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.scheduling.candidates.preparing import Preparing
from apportion.scheduling.deciding.decider import Decider
from apportion.scheduling.deciding.groupdecider import GroupDecider
from apportion.scheduling.demands.groupeddemands import GroupedDemands
from apportion.scheduling.demands.groups import CrossGroupDemand, Queued, WaitingGroup, demands_of, key_of
from apportion.scheduling.demands.waiting import WaitingDemand, is_current
from apportion.scheduling.events import events, groupevents
from apportion.scheduling.partitioncontrol import PartitionControl
from apportion.scheduling.room.hostcapacity import HostCapacity
from apportion.scheduling.walk.headreservation import HeadReservation
from apportion.scheduling.walk.lastdemands import LastDemands
from apportion.scheduling.walk.precedence import AskedTooSoon, Precedence
from apportion.scheduling.walk.reached import Reached
from apportion.scheduling.walk.readiness import Readiness, ReadinessCheck
from apportion.scheduling.walk.turns import Turns

_log = structlog.get_logger()
_FRESH = 0.2
"""Seconds for which the room of nodes is not read anew although pods were bound: that looks at every pod that waits."""
_SOON = 0.05
"""Seconds after which a walk ends early if something changed: a claim that came waits for the next one. They begin anew with a plan."""


class QueueWalk:
    """Walks through the queue."""

    def __init__(
        self,
        snapshot: Snapshot,
        partitions: PartitionControl,
        recorder: Recorder,
        decider: Decider,
        group_decider: GroupDecider,
        preparing: Preparing,
        *,
        clock: Callable[[], float],
        pressing: Callable[[], bool],
        before: Callable[[Collection[Queued]], Iterator[None]],
    ) -> None:
        """`pressing` says whether something changed, so that another pass should begin soon; `before` is done before anybody is decided."""
        self._snapshot, self._pressing, self._before = snapshot, pressing, before
        self._partitions, self._recorder = partitions, recorder
        self._decider, self._group_decider, self._preparing = decider, group_decider, preparing
        self._readiness = ReadinessCheck(decider, group_decider, preparing, recorder)
        self._last = LastDemands(snapshot, decider, self._readiness, clock)
        self._heads = HeadReservation(snapshot, decider, preparing)
        self._clock = clock
        self._reached = Reached(snapshot, decider.refusals, self._is_left_out, decider.quotas.dues.of)
        # Half of a walk at most: those that were not reached yet have the other one.
        self._precedence = Precedence(self._reached, clock, longest=_SOON)
        decider.before_grant = self._precedence.check
        self._grouped = GroupedDemands(snapshot)
        self.groups: tuple[WaitingGroup, ...] = ()
        """The groups that the latest walk looked at."""
        self._read_at = 0.0
        self.granted = 0
        """Claims granted in the latest walk."""
        self.ended_early = False
        """Whether the latest walk ended before the last of the queue."""

    def in_vain(self, seconds: float) -> float:
        """Return how much of so many seconds the latest walk took in vain; who has looked at a large group lets that rest instead."""
        goes_on = self._group_decider.busy or self._decider.searches.stopped
        return 0.0 if self.granted or goes_on else seconds - self._group_decider.spent

    @property
    def resumes(self) -> float:
        """When another pass is needed although nothing changes, by the clock."""
        return self._group_decider.resumes

    def reached(self) -> frozenset[str] | None:
        """Return the keys of the demands and groups that were looked at since a walk got to the end of the queue; None: the latest did."""
        return self._reached.keys if self.ended_early else None

    def abandon(self) -> None:
        """Give up what is being decided, and what is reserved: this replica acts no longer."""
        self._group_decider.abandon()
        self._heads.abandon()

    def walk(
        self,
        number: int,
        gone: Collection[str],
        came: Collection[WaitingDemand],
        *,
        longest: float,
        evaluates: bool,
    ) -> Iterator[Work | None]:
        """Decide for each demand; yields between decisions, or yields work that the caller has to do before it goes on.

        `number`: of the pass. `gone`: demands that went or changed since the former pass (by key), `came`: those that came or changed. `longest`: seconds
        after which the walk ends early. `evaluates`: evaluate costly selectors at its end; otherwise this is done beside the passes.
        """
        self.granted, self.ended_early = 0, False
        turns, waiting = yield from self._begin(number, gone, came)
        capacity = yield from self._read()
        yield from self._before(waiting)
        yield None
        self._last.begin()
        self._precedence.begin()
        ends, soon = self._clock() + longest, self._clock() + _SOON
        self._decider.searches.begin(longest)
        unprepared = list[Queued]()
        while turns:
            now = self._clock()
            is_over = now >= ends or self._pressing()
            if self._reached.anybody and now >= soon + self._precedence.spent and is_over:
                self.ended_early = True
                break
            if now - self._read_at >= _FRESH and self._decider.refusals.outdated:
                capacity = yield from self._read()
            if self._group_decider.leaves_more():
                turns.resume()
            if took := (yield from self._last.plan(turns, capacity)):
                # Deciding takes as long as planning: a plan that is dropped after a few decisions would be made anew for each few.
                now = self._clock()
                ends, soon = max(ends, now + took), now + max(took, _SOON)
            each = turns.pop()
            if not self._group_decider.leaves_room(each):
                turns.hold(each)
                yield None
                continue
            readiness = yield from self._ask(each, turns, capacity)
            if self._group_decider.is_begun(each):
                # A turn is long: who came meanwhile has the next one, in another walk, and then the group.
                soon = 0.0
                turns.add(each, later=True)
            if readiness == "waits":
                unprepared.append(each)
        else:
            if evaluates and unprepared:
                yield from self._evaluate(unprepared, turns)
            self._preparing.end()
        self._reached.end(early=self.ended_early, but=self._group_decider.being_decided)
        yield from self._heads.reserve(waiting)

    def _ask(self, queued: Queued, turns: Turns, capacity: HostCapacity) -> Generator[None, None, Readiness]:
        """Decide for one if it may be decided; yields where others may run."""
        epoch, granted = self._decider.refusals.epoch, 0
        readiness = yield from self._readiness.steps(queued)
        if readiness == "ready":
            if isinstance(queued, WaitingGroup) and not self._is_going_on(queued):
                # What is chosen for it is held while others are asked.
                while (others := self._precedence.before(queued)) is not None:
                    somebody = yield from self._ask_all(others, turns, capacity)
                    if somebody and self._steps_back(queued, turns):
                        return "rests"
            while True:
                try:
                    granted = yield from self._serve(queued, capacity)
                    break
                except AskedTooSoon as found:
                    somebody = yield from self._ask_all(found.others, turns, capacity)
                    if not self._group_decider.leaves_room(queued):
                        turns.hold(queued)
                        return "rests"
                    if somebody and self._steps_back(queued, turns):
                        return "rests"
        if granted:
            yield from self._decider.quotas.learn()
        else:
            self._decider.planner.note_unserved(key_of(queued))
        self._last.note_decided()
        self.granted += granted
        self._reached.note(queued, epoch, granted=bool(granted))
        if not self._group_decider.is_begun(queued):
            # Those behind it are decided with its devices held; those of its shape, too, if it has a reservation now: they may have the next one.
            if readiness != "waits":
                yield from self._heads.reserve_at_once(queued)
            keeps_back = readiness == "waits" or self._keeps_back(key_of(queued))
            if (following := turns.settle(queued, refused=keeps_back)) is not None:
                self._reached.expect(following)
            yield None
        return readiness

    def _is_going_on(self, group: WaitingGroup) -> bool:
        """Say whether nothing is to be chosen for a group now: that has begun, or it is refused as before."""
        return self._group_decider.is_begun(group) or self._decider.refusals.stands(group.key)

    def _ask_all(
        self, others: Iterator[Queued], turns: Turns, capacity: HostCapacity
    ) -> Generator[None, None, bool]:
        """Ask those that are to be asked before one, until one of them got something, and say whether; yields where others may run."""
        granted = self.granted
        for other in self._precedence.timed(others):
            self._decider.planner.begin()
            yield from self._ask(other, turns, capacity)
            if self._group_decider.is_begun(other):
                turns.go_on(other)
            if self.granted > granted:
                return True
        return False

    def _steps_back(self, queued: Queued, turns: Turns) -> bool:
        """Let one wait for its turn in its cohort once more, as others of it may be due now; says whether it has one."""
        if not turns.put_back(queued):
            return False
        self._reached.put_back(queued)
        return True

    def _begin(
        self, number: int, gone: Collection[str], came: Collection[WaitingDemand]
    ) -> Generator[None, None, tuple[Turns, list[Queued]]]:
        """Start the walk of a pass; returns who is to be decided, in their order, and those for whom devices may be reserved."""
        self._preparing.begin(number)
        self._heads.begin()
        refusals, quotas = self._decider.refusals, self._decider.quotas
        self._decider.begin(number, gone, came)
        yield from refusals.follow(gone, self._grouped.follow(gone, came))
        yield from quotas.begin(gone, came)
        single, alike = yield from quotas.without_waiting(*refusals.split())
        skips = self._group_decider.start()
        queue = yield from self._grouped.queue(single, skips)
        yield
        groups = tuple(each for each in queue if isinstance(each, WaitingGroup))
        self._group_decider.begin(groups)
        former = {group.key: group.demands for group in self.groups}
        refusals.forget(former.keys() - {group.key for group in groups})
        refusals.doubt(each.key for each in groups if former.get(each.key, each.demands) != each.demands)
        self.groups = groups
        yield from quotas.claimants.follow_groups(groups, skips, shares=quotas.shares)
        yield from self._group_decider.begin_reservations(gone, came, groups)
        waiting = [*queue, *(demands[0] for demands in alike)]
        yield from self._reached.begin(waiting)
        turns = Turns(self._snapshot.managed, quotas.cohorts())
        yield from turns.fill(queue, alike, self._reached.keys)
        return turns, waiting

    def _is_left_out(self, queued: Queued) -> bool:
        """Say whether one is not to be asked, whatever happened since it was: its write failed, it is set aside, or a group is being decided."""
        decider, groups, key = self._decider, self._group_decider, key_of(queued)
        backs_off = decider.writes.paused(key) or key in decider.set_aside
        return backs_off or groups.is_begun(queued) or not groups.leaves_room(queued)

    def _keeps_back(self, key: str) -> bool:
        """Say whether those of one shape that come behind it wait with it: it was refused for that shape, or the next walk goes on with its search."""
        return key in self._decider.searches.stopped or self._decider.refusals.is_refused(key)

    def _evaluate(self, unprepared: Sequence[Queued], turns: Turns) -> Iterator[Work | None]:
        """Evaluate costly selectors, now that everybody else was decided, and decide those that this lets in."""
        self._decider.planner.begin()
        yield from self._preparing.steps()
        capacity = yield from self._read()
        for each in unprepared:
            yield from self._ask(each, turns, capacity)
            while self._group_decider.is_begun(each):
                yield None
                yield from self._ask(each, turns, capacity)

    def _read(self) -> Generator[None, None, HostCapacity]:
        """Read what layouts reserve, and how full the nodes are; yields where others may run."""
        yield from self._partitions.steps()
        if self._partitions.reserve():
            self._partitions.wake()
        self._read_at = self._clock()
        self._decider.refusals.refresh()
        yield from self._decider.candidates.reading()
        return self._decider.candidates.capacity()

    def _serve(self, queued: Queued, capacity: HostCapacity) -> Generator[None, None, int]:
        """Decide for one, as far as its turn goes; an unexpected exception is logged and counted, and the others go on."""
        if isinstance(queued, CrossGroupDemand):
            groupevents.cross_group(self._recorder, queued)
            return 0
        members, refusals = demands_of(queued), self._decider.refusals
        refusals.defects.difference_update(demand.key for demand in members)
        try:
            if isinstance(queued, WaitingDemand) and not is_current(queued, self._snapshot):
                return 0
            if isinstance(queued, WaitingGroup):
                yield from self._group_decider.advance(queued, capacity)
                granted = self._group_decider.granted
            else:
                granted = yield from self._decider.decide(queued, capacity)
        except AskedTooSoon:
            raise
        except Exception:  # noqa: BLE001 - whatever it is, it is reported, and others go on
            _log.exception("demand.defect", demand=queued.key)
            refusals.refuse(queued.key, "defect")
            refusals.defects.update(demand.key for demand in members)
            events.defect(self._recorder, members)
            return 0
        if granted:
            self._group_decider.note_granted(queued)
        return granted
