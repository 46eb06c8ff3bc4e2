"""QueueWalk: the deciding part of a pass, from the first of the queue to the last, in bounded slices of work.

In: the demands that wait. Out: decisions, assumed and being written; between two of them the caller may let
others run. What the snapshot shows is then looked at again: a demand that changed is left to the next pass, and the room of
nodes is read anew. A walk that lasts too long ends early; the next one begins where it stopped.
"""

from collections.abc import Callable, Iterator, Sequence
from math import isfinite
from typing import Literal, Protocol, TypeAlias

import structlog

from apportion.allocator.preparation import Work
from apportion.cluster.recorder import Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.errors import BrokenInput
from apportion.scheduling import events
from apportion.scheduling.decider import Decider
from apportion.scheduling.groupdecider import GroupDecider
from apportion.scheduling.groups import CrossGroupDemand, Queued, WaitingGroup, by_group, ungrouped_tail
from apportion.scheduling.hostcapacity import HostCapacity
from apportion.scheduling.planner import MOST_TOGETHER
from apportion.scheduling.preparing import Preparing
from apportion.scheduling.turns import in_turns
from apportion.scheduling.waiting import WaitingDemand

_log = structlog.get_logger()
_FRESH = 0.2
"""Seconds for which the room of nodes is not read anew although pods were bound: that looks at every pod that waits."""

_LEAST = 0.02
"""Seconds of each pass for costly selectors, however much else there is to do."""


Readiness: TypeAlias = Literal["ready", "waits", "costly"]
"""Whether a demand may be decided: selectors are to be evaluated first, or they cost too much."""


class Reserving(Protocol):
    """The control side of partitions, as far as deciding needs it."""

    def reserve(self) -> bool:
        """Keep claims off what layouts want; says whether that was planned anew, so that there is something to do."""

    def wake(self) -> None:
        """Let the task that writes Partition objects act soon."""


class QueueWalk:
    """Walks through the queue."""

    def __init__(
        self,
        snapshot: Snapshot,
        partitions: Reserving,
        recorder: Recorder,
        decider: Decider,
        group_decider: GroupDecider,
        preparing: Preparing,
        *,
        clock: Callable[[], float],
        pressing: Callable[[], bool],
    ) -> None:
        """`pressing` says whether something changed, so that another pass should begin soon."""
        self._snapshot = snapshot
        self._pressing = pressing
        self._partitions = partitions
        self._recorder = recorder
        self._decider = decider
        self._group_decider = group_decider
        self._preparing = preparing
        self._clock = clock
        self._reached: frozenset[str] = frozenset()
        """The keys of the demands and groups that the former walk reached, if it ended early."""
        self._read_at = 0.0
        self.granted = 0
        """Claims granted in the latest walk."""
        self.ended_early = False
        """Whether the latest walk ended before the last of the queue."""

    def walk(self, number: int, demands: Sequence[WaitingDemand], *, longest: float) -> Iterator[Work | None]:
        """Decide for each demand; yields between decisions, or yields work that the caller has to do before it goes on.

        `number`: of the pass. `longest`: seconds after which the walk ends early.
        """
        self.granted, self.ended_early = 0, False
        self._preparing.begin(number)
        queue = by_group(demands, self._snapshot)
        yield None
        queue = in_turns(queue, self._snapshot.managed)
        groups = [each for each in queue if isinstance(each, WaitingGroup)]
        keys = {id(each): _key(each) for each in queue}
        self._decider.begin(number, frozenset([*keys.values(), *(demand.key for demand in demands)]), demands)
        self._group_decider.begin(groups)
        yield None
        capacity = self._read()
        if self._reached.issuperset(keys.values()):
            self._reached = frozenset()
        queue.sort(key=lambda each: keys[id(each)] in self._reached)
        last = ungrouped_tail(queue)[-MOST_TOGETHER:]
        planned_at: int | None = None
        ends = self._clock() + longest
        reached: set[str] = set()
        unprepared: list[Queued] = []
        for each in queue:
            if reached and self._clock() >= ends:
                self._reached |= reached
                self.ended_early = True
                return
            if self._is_stale():
                capacity = self._read()
            if last and each is last[0]:
                current = [
                    demand
                    for demand in last
                    if is_current(demand, self._snapshot) and self._readiness(demand) == "ready"
                ]
                refused = {demand.key for demand in current if self._decider.is_refused(demand)}
                self._decider.planner.plan(
                    current,
                    capacity,
                    lambda key, refused=refused: key in refused or self._decider.rests(key),  # type: ignore[misc]
                )
                planned_at = self._snapshot.state.moment
            elif planned_at is not None and planned_at != self._snapshot.state.moment:
                # Devices changed since, and not by these decisions.
                self._decider.planner.begin()
            # Most of a long queue rests: nothing else is looked at.
            if not (isinstance(each, WaitingDemand) and self._decider.rests(each.key)):
                match self._readiness(each):
                    case "waits":
                        unprepared.append(each)
                    case "ready":
                        self.granted += self._serve(each, capacity)
            if planned_at is not None:
                planned_at = self._snapshot.state.moment
            reached.add(keys[id(each)])
            yield None
        self._reached = frozenset()
        if unprepared:
            yield from self._prepare(unprepared, self._clock() + longest / 2)

    def _prepare(self, unprepared: Sequence[Queued], ends: float) -> Iterator[Work | None]:
        """Evaluate costly selectors, now that everybody else was decided, and decide those that this lets in.

        It ends soon when something changed, because who came meanwhile waits for the next pass.
        """
        self._decider.planner.begin()
        least = self._clock() + _LEAST if isfinite(ends) else ends
        for work in self._preparing.steps():
            yield work
            if (now := self._clock()) >= ends or (now >= least and self._pressing()):
                break
        self.ended_early = not self._preparing.idle
        capacity = self._read()
        for each in unprepared:
            if self._readiness(each) == "ready":
                self.granted += self._serve(each, capacity)
                yield None
                if self._clock() >= ends:
                    self.ended_early = True
                    return

    def _readiness(self, queued: Queued) -> Readiness:
        """Say whether to decide; a demand whose selectors cost too much is refused here."""
        if isinstance(queued, CrossGroupDemand) or self._decider.refusals.stands(queued.key):
            return "ready"
        members = queued.demands if isinstance(queued, WaitingGroup) else (queued,)
        try:
            waits = [self._preparing.waits(demand) for demand in members]
        except BrokenInput as error:
            self._decider.refusals.refuse(queued.key, "costly")
            for demand in members:
                events.costly(self._recorder, demand, error)
            return "costly"
        return "waits" if any(waits) else "ready"

    def _read(self) -> HostCapacity:
        """Read what layouts reserve, and how full the nodes are."""
        if self._partitions.reserve():
            self._partitions.wake()
        self._read_at = self._clock()
        self._decider.refusals.refresh()
        return self._decider.candidates.capacity()

    def _is_stale(self) -> bool:
        return self._clock() - self._read_at >= _FRESH and self._decider.refusals.outdated

    def _serve(self, queued: Queued, capacity: HostCapacity) -> int:
        """Decide for one; an unexpected exception is logged and counted, and the others go on."""
        if isinstance(queued, CrossGroupDemand):
            events.cross_group(self._recorder, queued)
            return 0
        members = queued.demands if isinstance(queued, WaitingGroup) else (queued,)
        pods = queued.pod_group.pods if isinstance(queued, WaitingGroup) else ()
        if not all(is_current(demand, self._snapshot) for demand in members) or any(
            self._snapshot.pods.get(pod.uid) is not pod for pod in pods
        ):
            return 0
        try:
            if isinstance(queued, WaitingGroup):
                return self._group_decider.decide(queued, capacity)
            return self._decider.decide(queued, capacity)
        except Exception:  # noqa: BLE001 - whatever it is, it is reported, and others go on
            _log.exception("demand.defect", demand=queued.key)
            self._decider.refusals.refuse(queued.key, "defect")
            events.defect(self._recorder, members)
            return 0


def is_current(demand: WaitingDemand, snapshot: Snapshot) -> bool:
    """Say whether a demand still waits as it did when the queue was made."""
    return (
        all(
            snapshot.claims.get(claim.uid) is claim
            and snapshot.allocation(claim) is None
            and snapshot.managed.owns(claim)
            for claim in demand.claims
        )
        and all(snapshot.pods.get(pod.uid) is pod for pod in demand.pods)
        and all(
            snapshot.claims.get(claim.uid) is claim and snapshot.allocation(claim) is not None
            for claim in demand.tied
        )
    )


def _key(queued: Queued) -> str:
    return queued.demand.key if isinstance(queued, CrossGroupDemand) else queued.key
