"""LastDemands: the last of the queue, which are planned together (ADR 0011).

In: the turns of a walk, the capacity of nodes. Out: a plan once few enough are left, which is dropped when devices change by what is none of its decisions.
"""

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Final

from apportion.allocator.queue import MOST_TOGETHER
from apportion.cluster.snapshot import Snapshot
from apportion.scheduling.deciding.decider import Decider
from apportion.scheduling.demands.waiting import WaitingDemand, is_current
from apportion.scheduling.pace import Pace
from apportion.scheduling.quota.batch import BatchAdmission
from apportion.scheduling.room.foreignclaims import has_foreign
from apportion.scheduling.room.hostcapacity import HostCapacity
from apportion.scheduling.room.noderoom import unplaced
from apportion.scheduling.walk.readiness import ReadinessCheck
from apportion.scheduling.walk.refusedshapes import RefusedShapes
from apportion.scheduling.walk.turns import Turns

LARGE: Final = 64
"""Pods, or claims, of a demand that is placed by itself: 64 demands are planned in one step."""


class LastDemands:
    """Has the planner plan for them."""

    def __init__(
        self, snapshot: Snapshot, decider: Decider, readiness: ReadinessCheck, clock: Callable[[], float]
    ) -> None:
        self._snapshot, self._decider = snapshot, decider
        self._readiness, self._clock = readiness, clock
        self._refused_shapes = RefusedShapes(decider)
        self._quotas = BatchAdmission(decider.quotas, snapshot.devices.device)
        self._planned_at: int | None = None
        """As of which moment of the state they are planned; None: they are not."""
        self._epoch: tuple[int, int, int] | None = None
        """In which epoch they were taken out of the queue; None: they were not, or are in it once more."""

    def begin(self) -> None:
        """Start a walk, without a plan."""
        self._planned_at = self._epoch = None

    def plan(self, turns: Turns, capacity: HostCapacity) -> Generator[None, None, float]:
        """Plan for the last, once they are; yields while nodes are searched. Returns how many seconds that took, 0 if there was nothing to plan."""
        epoch = self._decider.refusals.epoch
        last = yield from turns.last(MOST_TOGETHER, partial(self._is_refused, capacity))
        if last:
            self._epoch = epoch
            began = self._clock()
            yield from self._plan(last, capacity)
            self._planned_at = self._snapshot.state.moment
            return self._clock() - began
        if self._epoch not in (None, self._decider.refusals.epoch):
            self._epoch = None
            turns.reorder()
        if self._planned_at not in (None, self._snapshot.state.moment):
            # Devices changed since, and not by these decisions.
            self._decider.planner.begin()
        return 0.0

    def note_decided(self) -> None:
        """Note that one of them was decided, with nothing in between."""
        if self._planned_at is not None:
            self._planned_at = self._snapshot.state.moment

    def _is_refused(self, capacity: HostCapacity, first: WaitingDemand) -> Generator[None, None, bool]:
        """Say whether those behind a demand, which were refused for the same shape as it, are refused now, too."""
        if not is_current(first, self._snapshot):
            return False
        readiness = self._readiness.of(first)
        if self._decider.refusals.is_refused(first.key):
            return True
        return readiness == "ready" and (yield from self._refused_shapes.stays_refused(first, capacity))

    def _plan(self, last: Sequence[WaitingDemand], capacity: HostCapacity) -> Generator[None, None, None]:
        decider = self._decider
        # What kube-scheduler allocates is searched for when they are decided by themselves: each namespace has a share of a walk for that.
        foreign, pace = set[str](), Pace()
        for each in last:
            # Few of them are looked at in one step: what comes free before there is a plan is given by the turns of before.
            if pace.rests(sum(len(pod.claims) for pod in each.pods)):
                yield
            if any(has_foreign(pod, self._snapshot) for pod in each.pods):
                foreign.add(each.key)
        pods = [pod for demand in last if demand.key not in foreign for pod in demand.pods]
        large = {each.key for each in last if max(len(each.pods), len(each.claims)) > LARGE} | foreign
        yield from capacity.fitting_ahead(
            unplaced(demand, self._snapshot) for demand in last if demand.key not in large
        )
        # What is counted anew for each of them would be in one step.
        if not (yield from decider.candidates.ahead(pods)) or self._came_free():
            decider.planner.begin()
            return
        current = [demand for demand in last if is_current(demand, self._snapshot)]
        current = [demand for demand in current if self._readiness.of(demand) in ("ready", "rests")]
        # In any order as many are served of those that are alike, by the same devices: a plan would only cost.
        if len(shapes := {decider.shape(each) for each in current}) == 1 and None not in shapes:
            decider.planner.begin()
            return
        refused = yield from self._refused_shapes.among(current, capacity)
        if self._came_free():
            decider.planner.begin()
            return
        current = [demand for demand in current if is_current(demand, self._snapshot)]
        apart = self._refused_shapes.apart(refused)
        shut = {
            each.key for each in current if each.key not in refused and decider.is_shut(decider.shape(each))
        }
        yield from decider.planner.plan(
            current,
            capacity,
            lambda key: (key in refused and key not in apart) or decider.rests(key),
            partial(self._quotas.allows, current),
            late=apart.union(shut, large, self._quotas.beyond(current, decider.rests)),
        )

    def _came_free(self) -> bool:
        """Say whether something happened since they were taken out that may let in those that were refused meanwhile: it goes to whose turn it is now."""
        if self._epoch == self._decider.refusals.epoch:
            return False
        self._decider.refusals.reopen()
        return True
